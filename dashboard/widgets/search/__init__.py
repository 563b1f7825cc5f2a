"""Parts of the page of search."""
