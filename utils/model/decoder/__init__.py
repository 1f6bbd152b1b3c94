"""The decoders: stock's HiFi-GAN, the starter's vocoder of frames, and the harmonic source of former starters."""
