"""Parts of the overview."""
