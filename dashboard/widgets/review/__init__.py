"""What the page Review shows."""
