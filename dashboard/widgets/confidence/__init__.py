"""Parts of the page of confidence."""
