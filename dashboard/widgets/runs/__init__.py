"""Parts of the page of all runs."""
