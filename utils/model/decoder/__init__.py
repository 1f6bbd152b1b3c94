"""The decoder: HiFi-GAN as stock builds it, and the starter's vocoder of frames, and the harmonic source of former starters."""
