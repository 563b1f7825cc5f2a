"""Parts of the page of episodes."""
