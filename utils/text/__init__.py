"""What the model reads: normalised text and its tokens."""
