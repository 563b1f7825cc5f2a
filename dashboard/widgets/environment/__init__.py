"""Parts of the page of one environment."""
