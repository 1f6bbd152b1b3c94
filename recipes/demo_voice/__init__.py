"""The bundled demo voice, from its sentences."""
