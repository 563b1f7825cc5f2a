"""What the page of evaluations shows, and what the pages of arms and runs show of them."""
