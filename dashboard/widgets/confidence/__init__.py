"""What the page of confidence shows."""
