"""Parts of the page of data."""
