"""Views: pure functions from facts to escaped HTML."""
