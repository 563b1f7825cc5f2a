"""Parts of the page Review."""
