"""Edits of single clips: exclude, restore, trim, split, merge, change text."""
