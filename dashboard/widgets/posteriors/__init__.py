"""Parts of the page of all posteriors."""
