"""Help: parts of the page Help."""
