"""The process that trains for `train_gpt`: its caller's side, and its own."""
