"""A dataset of sentences that are read aloud on the page."""
