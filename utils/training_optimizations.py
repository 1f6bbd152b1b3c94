"""TrainingOptimizer of published guides: the switches of a training run, also on models of other programs."""

import logging
from typing import Any, TypeVar

import torch
from torch import nn

from utils.config import TrainConfig
from utils.console import say
from utils.errors import UserError
from utils.hardware.recommendations import recommend
from utils.model.gpt import XttsGpt
from utils.options import Checkpointing, CompileMode, Precision
from utils.performance_utils.device import settle_device
from utils.performance_utils.memory import memory_line, memory_stats
from utils.training.switches.base import Report
from utils.training.switches.foreign import ForeignModel
from utils.training.switches.optimizer import Optimizations

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=nn.Module)


class TrainingOptimizer(Optimizations):
    """Takes a model and makes it train as requested.

    Args:
        enable_gradient_checkpointing, enable_grad_checkpoint: recompute activations; True is "full". Two names of one
            switch.
        enable_sdpa: fused attention without padding; False is explicit softmax attention, the reference.
        enable_mixed_precision: half-precision products; True is "auto", False "fp32".
        compile_mode: torch.compile of the blocks.
        device: where training runs; a CUDA GPU when there is one.
        settings: other switches, and `dropout` and `seed`, as `utils.config.TrainConfig` names them:
            eight_bit_optimizer, paged_optimizer, lora_rank, freeze_conditioning, cuda_memory_fraction, ...

    Raises:
        UserError: an impossible combination, or a setting that does not exist.
    """

    def __init__(
        self,
        enable_gradient_checkpointing: bool | Checkpointing | None = None,
        enable_sdpa: bool = True,
        enable_mixed_precision: bool | Precision = False,
        *,
        enable_grad_checkpoint: bool | Checkpointing | None = None,
        compile_mode: CompileMode = "off",
        device: torch.device | str | None = None,
        **settings: Any,
    ) -> None:
        both = (enable_gradient_checkpointing, enable_grad_checkpoint)
        if len(given := {value for value in both if value is not None}) > 1:
            raise UserError(
                what=f"enable_gradient_checkpointing is {both[0]} and enable_grad_checkpoint is {both[1]}: one switch",
                where="TrainingOptimizer",
                fix="give one of them",
            )
        values: dict[Any, str] = {False: "none", True: "full"}
        precisions: dict[Any, str] = {False: "fp32", True: "auto"}
        checkpointing, precision = next(iter(given), False), enable_mixed_precision
        named = {
            "project": "",
            "gradient_checkpointing": values.get(checkpointing, checkpointing),
            "sdpa": enable_sdpa,
            "mixed_precision": precisions.get(precision, precision),
            "compile": compile_mode,
        }
        config = TrainConfig.from_values({**named, **settings}, where="TrainingOptimizer")
        super().__init__(config, torch.device(device or settle_device("auto")[0]))
        self.foreign: ForeignModel | None = None
        """The model that was optimized, if it is none of ours."""

    def optimize_model(self, model: Model) -> Model:
        """Set the model up in place, and torch for the device; the model comes back on the device.

        Another model than ours, such as stock coqui-tts' or a Hugging Face one, gets what can be done to it; `states`
        says what was seen of it, and why the rest is off.

        Raises:
            UserError: it is no module.
        """
        if isinstance(model, XttsGpt):
            self.apply(model)
            return model
        if not isinstance(model, nn.Module):
            what = f"optimize_model was given a {type(model).__name__}, and takes a torch.nn.Module"
            raise UserError(what=what, where="TrainingOptimizer", fix="give it the model itself")
        self.set_up()
        self.foreign = ForeignModel(model.to(self.device), self.switches)
        return model

    @property
    def states(self) -> Report:
        """Of a model that is not ours: each switch, on only where a training step showed it, else off with why."""
        return self.foreign.states() if self.foreign is not None else {}

    get_memory_stats = staticmethod(memory_stats)
    recommend = staticmethod(recommend)

    @staticmethod
    def print_memory_stats() -> None:
        """Show `get_memory_stats` in GB, one line: logged where logging is set up, printed where it is not."""
        say(log, memory_line(memory_stats()))
