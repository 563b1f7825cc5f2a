"""What the page of tokens shows."""
