"""What the page of data shows."""
