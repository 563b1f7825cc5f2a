"""The frame of every page: filters, role, state of the data, brand and style."""
