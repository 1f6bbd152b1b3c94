"""Normalize and tokenize text for the model."""
