"""Parts of the page of rewards."""
