"""Parts of the page of an episode."""
