"""A run on disk: its event log, record, progress, list, and checkpoints."""
