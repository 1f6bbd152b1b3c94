"""Fine-tuning the GPT: plan, loop, data, optimizer and optimization switches."""
