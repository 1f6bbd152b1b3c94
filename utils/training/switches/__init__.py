"""Each training switch in one file: what a device can have of it, what it changes, and how a step shows it."""
