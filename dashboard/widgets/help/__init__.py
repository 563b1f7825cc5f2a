"""Parts of the page Help."""
