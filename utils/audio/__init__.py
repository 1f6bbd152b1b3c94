"""Sound on disk to tensors and back: decode, resample, read a part, write."""
