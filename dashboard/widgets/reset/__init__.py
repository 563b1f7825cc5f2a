"""Parts of the page of resets."""
