"""TrainingOptimizer under its public name; see `utils.training.optimizations`."""

from utils.training.optimizations.training_optimizer import TrainingOptimizer

__all__ = ["TrainingOptimizer"]
