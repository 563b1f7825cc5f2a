"""Parts of the page of one run."""
