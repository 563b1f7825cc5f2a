"""What the page of all runs shows."""
