"""What the page of people shows."""
