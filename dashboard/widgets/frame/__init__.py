"""The frame of every page: filters, role, state of the data, first steps, brand and style."""
