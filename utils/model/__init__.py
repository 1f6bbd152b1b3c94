"""The XTTS network: the GPT with a packed training forward, conditioning, LoRA and the decoder."""
