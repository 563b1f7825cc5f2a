"""Parts of the page that compares two sets of runs."""
