"""Recipes that make what ships in assets from nothing but this repository and espeak-ng."""
