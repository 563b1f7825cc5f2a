"""What the page of resets shows."""
