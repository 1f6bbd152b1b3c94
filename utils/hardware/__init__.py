"""Facts about this machine, and recommendations for it; without loading torch."""
