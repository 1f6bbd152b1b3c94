"""Training the decoder that turns GPT latents into sound."""
