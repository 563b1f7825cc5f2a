"""What the page of one run shows."""
