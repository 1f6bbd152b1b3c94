"""Change a dataset atomically, and cache finished work."""
