"""From a dataset's metadata to batches: clips, audio files, codes, lengths and loaders."""
