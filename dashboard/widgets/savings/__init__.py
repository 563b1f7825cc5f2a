"""Parts of the page of savings."""
