"""What the page of savings shows."""
