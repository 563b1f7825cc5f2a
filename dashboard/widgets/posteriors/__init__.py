"""What the page of all beliefs shows."""
