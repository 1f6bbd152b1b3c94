"""A project on disk: its paths, what was chosen for it, and its uploads; without loading torch."""
