"""Fine-tuning the GPT: code cache, batches, optimizer, loop, checkpoints and evaluation."""
