"""Evaluate speech: correct words, similarity to the voice, and defects."""
