"""What happens on a click: read the values, ask `utils`, return the new values by component id."""
