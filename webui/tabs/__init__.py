"""Layout only: each tab creates its components and returns them by name."""
