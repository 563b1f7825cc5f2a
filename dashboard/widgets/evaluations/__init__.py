"""Parts of the page of evaluations, shared with the pages of arms and runs."""
