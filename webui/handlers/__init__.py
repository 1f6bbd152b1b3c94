"""Handlers: read the values, call `utils`, return new values by component id."""
