"""What the page of one arm shows."""
