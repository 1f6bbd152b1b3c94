"""Recordings and transcripts in, a dataset that training can trust out."""
