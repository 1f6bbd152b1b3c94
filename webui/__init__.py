"""The web app: a page over the engine in `utils`. This process never loads torch."""
