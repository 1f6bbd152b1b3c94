"""From a recording to a clip of the dataset: make, split, merge with what exists."""
