"""How a base reads a language, how long clips and texts are, and bases made for a language."""
