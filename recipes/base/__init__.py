"""Make the base that ships: a corpus by a neural teacher, then codec, GPT, decoder, and speaker encoder."""
