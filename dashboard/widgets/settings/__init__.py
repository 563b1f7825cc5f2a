"""Parts of the page of settings."""
