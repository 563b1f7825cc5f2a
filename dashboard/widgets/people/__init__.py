"""Parts of the page of people."""
