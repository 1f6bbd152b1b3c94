"""Extend a base's vocabulary for a language without changing old ids or segmentations."""
