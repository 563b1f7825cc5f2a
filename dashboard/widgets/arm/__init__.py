"""Parts of the page of one arm."""
