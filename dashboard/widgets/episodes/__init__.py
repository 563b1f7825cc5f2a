"""What the page of episodes shows."""
