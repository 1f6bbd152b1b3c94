"""What the user gave, as a list of recordings."""
