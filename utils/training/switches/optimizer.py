"""TrainingOptimizer: the switches of a training run, what they changed, and the proof that they did."""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from utils.config import TrainConfig
from utils.console import say
from utils.errors import UserError
from utils.hardware.recommendations import Recommendation, recommend
from utils.model.gpt import XttsGpt
from utils.options import Checkpointing, CompileMode, Precision
from utils.performance_utils.device import settle_device
from utils.performance_utils.memory import memory_line, memory_stats
from utils.performance_utils.settings import optimize_torch_settings
from utils.switches import SWITCHES
from utils.training.switches.attention import choose_kernel
from utils.training.switches.base import Report, Trace, behavior_of, report, resolve
from utils.training.switches.compile import failure, failures, uncompile_blocks
from utils.training.switches.optim import make_optimizer
from utils.training.switches.record import StepRecord, num_graphs, num_skips, record_step
from utils.training.switches.trials import try_gpu_paths

if TYPE_CHECKING:
    from utils.training.switches.foreign import ForeignModel

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Model = TypeVar("Model", bound=nn.Module)


class TrainingOptimizer:
    """Takes a GPT and makes it train as asked; `report` says what took effect, after the first step.

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
        self._set(config, torch.device(device or settle_device("auto")[0]))

    def _set(self, config: TrainConfig, device: torch.device) -> None:
        self.device = device
        asked = replace(config, device="cuda" if device.type == "cuda" else "cpu")
        self.switches = resolve(asked.validate(where="training optimizations"), device)
        if device.type == "cuda":
            try_gpu_paths(self.switches, device)
        self.record: StepRecord | None = None
        """What was watched: a micro-batch of the first step, and of the first after each change; None before it."""
        self.has_news = False
        """Whether `report` would report something new."""
        self.reported: Report = {}
        """What `report` gave last; empty before the first step."""
        self.memory_logged = -math.inf
        """When memory was last logged, on a clock that only runs forward."""
        self.foreign: ForeignModel | None = None
        """The model that was optimized, if it is none of ours."""
        self._watched: tuple[Any, ...] | None = None

    @classmethod
    def from_config(cls, config: TrainConfig, device: torch.device) -> "TrainingOptimizer":
        """The optimizer for a run's settled settings."""
        made = cls.__new__(cls)
        made._set(config, device)
        return made

    def optimize_model(self, model: Model) -> Model:
        """Set the model up in place, and torch for the device; the model comes back on the device.

        Another model than ours, such as stock coqui-tts' or a Hugging Face one, gets what can be done to it; `states`
        says what was seen of it, and why the rest is off.

        Raises:
            UserError: it is no module.
        """
        if not isinstance(model, nn.Module):
            what = f"optimize_model was given a {type(model).__name__}, and takes a torch.nn.Module"
            raise UserError(what=what, where="TrainingOptimizer", fix="give it the model itself")
        effective = self.switches.effective
        optimize_torch_settings(self.device, threads=effective.threads)
        behaviors = [behavior_of(switch) for switch in SWITCHES]
        for behavior in behaviors:
            if behavior.set_up:
                behavior.set_up(effective, self.device)
        if isinstance(model, XttsGpt):
            model.options.dropout = effective.dropout or 0.0
            for behavior in behaviors:
                if behavior.apply:
                    behavior.apply(model, effective)
            choose_kernel(self.switches, model, self.device)
        model.to(self.device)
        if not isinstance(model, XttsGpt):
            # With transformers' own models: takes seconds to load.
            from utils.training.switches.foreign import ForeignModel

            self.foreign = ForeignModel(model, self.switches)
        return model

    @property
    def states(self) -> Report:
        """Of a model that is not ours: each switch, on only where a training step showed it, else off with why."""
        return self.foreign.states() if self.foreign is not None else {}

    def make_optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        """AdamW of the chosen kind over the parameters that learn."""
        kind = self.switches.optimizer
        return make_optimizer(model, learning_rate=learning_rate, weight_decay=weight_decay, kind=kind)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around a step of training: where one of its micro-batches is watched, compiling anywhere in it counts."""
        record, before = self.record, (num_graphs(), num_skips())
        yield
        if self.record is not None and self.record is not record:
            # Later micro-batches may have shapes of their own to compile for.
            self.record.num_graphs, self.record.num_skips = num_graphs() - before[0], num_skips() - before[1]

    @contextmanager
    def micro_batch(self, model: XttsGpt) -> Iterator[None]:
        """Around a forward and backward pass; the first is watched, and the first that computes in another way."""
        way = replace(model.options), "compile" in self.switches.off
        if way == self._watched:
            yield
            return
        with record_step(model) as record:
            yield
        self.record, self._watched, self.has_news = record, way, True

    def attempt(self, model: XttsGpt, work: Callable[[], Result], undo: Callable[[], None]) -> Result:
        """Do something with the model; when compiling fails, do it once more with the blocks as they are written.

        Compiling can fail at any time: code is compiled anew for shapes that are new, and for evaluation. Not where it
        ran out of the GPU's memory: that is passed on, as of every other work.

        Args:
            model: from `optimize_model`.
            work: what to do; it must compute the same when it is called again after `undo`.
            undo: takes back what work that failed half-way has left.
        """
        if self.switches.effective.compile == "off" or "compile" in self.switches.off:
            return work()
        try:
            return work()
        except failures() as error:
            if isinstance(getattr(error, "inner_exception", None), torch.OutOfMemoryError):
                raise  # Blocks as they are written need no less: smaller batches fix it, and they can be compiled.
            log.warning("torch.compile failed; training continues without it: %s", str(error))
            self.switches.off["compile"] = f"compiling failed: {failure(error)}"
            uncompile_blocks(model)
            self.has_news = self.record is not None
        # Outside the handler: the traceback held on to the activations of the failed forward.
        undo()
        return work()

    def report(
        self,
        model: XttsGpt,
        optimizer: torch.optim.Optimizer,
        *,
        scaler: bool,
        loader: object,
    ) -> Report:
        """Each switch: what was asked, what the watched step showed, and why it is off if it is.

        Args:
            model, optimizer: as trained.
            scaler: whether a gradient scaler is active.
            loader: the training DataLoader.
        """
        if self.foreign is not None:
            return self.states
        assert self.record is not None, "report before the first step"
        trace = Trace(
            switches=self.switches,
            record=self.record,
            model=model,
            optimizer=optimizer,
            scaler=scaler,
            loader=loader,
        )
        self.has_news, self.reported = False, report(trace)
        return self.reported

    @staticmethod
    def get_memory_stats() -> dict[str, Any]:
        """Bytes in use now, by the process that trains and on its GPU; from any thread, and without a GPU.

        While `train_gpt` runs, that is its child process: `pid` names it, and its GPU's bytes are the driver's.

        Returns:
            device; rss_bytes and peak_rss_bytes of the process; with CUDA also allocated_bytes, reserved_bytes,
            peak_bytes (allocated at most), free_bytes and total_bytes of the GPU that it holds most of.
        """
        return memory_stats()

    @staticmethod
    def print_memory_stats() -> None:
        """Show `get_memory_stats` in GB, one line: logged where logging is set up, printed where it is not."""
        say(log, memory_line(memory_stats()))

    @staticmethod
    def recommend(*args: Any, **options: Any) -> Recommendation:
        """Settings for this machine and purpose; see `utils.hardware.recommend`."""
        return recommend(*args, **options)
