"""Amharic text: one spelling for each sound, numbers and abbreviations in words, sounds, and a Latin form of them."""
