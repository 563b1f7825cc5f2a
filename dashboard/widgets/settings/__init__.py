"""What the page of settings shows."""
