"""What the page of an episode shows."""
