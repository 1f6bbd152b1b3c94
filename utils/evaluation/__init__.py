"""Measuring speech: are the words right, does it sound like the voice, does it end where it should."""
