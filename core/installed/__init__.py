"""Inventory of what the agents of this machine carry, from their own files.

Nothing is started, fetched or written. A size that no file has stays unknown.
"""
