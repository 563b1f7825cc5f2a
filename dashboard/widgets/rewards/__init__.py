"""What the page of rewards shows."""
