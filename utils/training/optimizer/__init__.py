"""AdamW in its kinds, the learning-rate schedule and the data type of matrix products."""
