"""A project on disk: its paths, choices and uploads; without loading torch."""
