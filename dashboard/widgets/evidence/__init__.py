"""Parts of the page of evidence."""
