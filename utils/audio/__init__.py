"""Decode, resample, crop and write audio."""
