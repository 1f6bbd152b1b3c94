"""The names of published guides for training arguments and what a machine can do, under the module that they import."""

from typing import Any

from utils.performance_utils import log_performance_info, log_system_info, optimize_torch_settings
from utils.spellings import translate
from utils.training_optimizations import TrainingOptimizer

__all__ = [
    "CustomTrainingArguments",
    "TrainingOptimizer",
    "log_performance_info",
    "log_system_info",
    "optimize_torch_settings",
]


class CustomTrainingArguments(dict[str, Any]):
    """Settings by the names of Hugging Face's trainer, as keyword arguments for `train_gpt(..., **training_args)`.

    Args:
        settings: such as bf16, gradient_checkpointing, dataloader_num_workers, torch_compile_mode; or ours.

    Raises:
        UserError: two of them contradict each other. `train_gpt` refuses those that it does not know, by name.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(translate(settings, where="CustomTrainingArguments")[0])
