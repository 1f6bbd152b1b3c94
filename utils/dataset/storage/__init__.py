"""Changing a dataset at once or not at all, and keeping what was worked out already."""
