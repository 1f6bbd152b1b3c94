"""Training the DVAE that turns speech into codes."""
