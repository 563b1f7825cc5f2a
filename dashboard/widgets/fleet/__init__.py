"""Fleet: many learners in a table."""
