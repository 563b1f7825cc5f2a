"""What surrounds every page: filters, role, state of the data, first steps, the brand and the style."""
