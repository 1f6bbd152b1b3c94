"""Speaking with a model and exporting it."""
