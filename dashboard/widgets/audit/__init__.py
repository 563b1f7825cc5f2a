"""What the page of the audit shows."""
