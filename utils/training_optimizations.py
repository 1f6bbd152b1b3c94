"""TrainingOptimizer under its public name; see `utils.training.switches`."""

from utils.training.switches.optimizer import TrainingOptimizer

__all__ = ["TrainingOptimizer"]
