"""What the page of one environment shows."""
