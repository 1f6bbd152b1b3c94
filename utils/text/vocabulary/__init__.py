"""A base's vocabulary made larger for a language, with every old id and old segmentation as it was."""
