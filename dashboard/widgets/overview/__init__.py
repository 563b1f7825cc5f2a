"""What the first page shows."""
