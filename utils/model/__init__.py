"""The XTTS model: its bases, its parts and the packed training forward."""
