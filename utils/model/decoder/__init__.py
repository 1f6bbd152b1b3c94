"""The decoder: HiFi-GAN as stock builds it, and the starter's with pitch, envelope and harmonic source."""
