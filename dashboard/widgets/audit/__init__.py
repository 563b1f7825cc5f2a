"""Parts of the page of the audit."""
