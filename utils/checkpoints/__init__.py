"""Checkpoints of a run: layout on disk, the store that writes them whole, saving beside training, resuming."""
