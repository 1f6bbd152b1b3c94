"""Check, measure and score clips."""
