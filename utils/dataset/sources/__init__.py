"""List the clips of the user's inputs."""
