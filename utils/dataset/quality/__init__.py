"""What clips must fit, and what measures and scorers say about them."""
