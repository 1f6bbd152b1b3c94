"""Turn recordings and transcripts into a training dataset."""
