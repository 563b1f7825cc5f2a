"""Parts of the page of tokens."""
