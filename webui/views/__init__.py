"""HTML made of facts: pure functions from what `utils` says to escaped markup."""
