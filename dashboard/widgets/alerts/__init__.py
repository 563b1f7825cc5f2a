"""Parts of the page Alerts."""
