"""Parts of the page of all learners."""
