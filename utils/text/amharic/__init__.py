"""Amharic text: spelling, numbers and abbreviations as words, sounds, and their Latin form."""
