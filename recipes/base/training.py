"""What all stages of training share: steps that resume from a checkpoint, pause, and report."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from recipes.base.corpus import wait_while_paused
from utils.codec_training.training_state import Stateful, load_progress, save_progress
from utils.jobs.child import EXIT_BASE, StopRequest
from utils.model.weights import write_weights
from utils.performance_utils.device import cpu_has_bf16

LOG_EVERY, CHECKPOINT_EVERY = 100, 250
REFRESH_EVERY = 500
"""Steps after which shards that were completed meanwhile are taken up."""

log = logging.getLogger(__name__)


def train_steps(
    name: str, work: Path, steps: int, parts: dict[str, Stateful], step: Callable[[int], dict[str, float]]
) -> None:
    """Run `step` for each number up to `steps`, from the last checkpoint on.

    Checkpoints are `<work>/<name>/training.pt`. A stop by a signal saves and exits with the status that shells give it;
    while a file PAUSE lies in the work folder, nothing is computed. Each step draws from a random generator that its
    own number seeds, so a resumed training differs from an undisturbed one only where the corpus has grown.

    Args:
        name: of the stage, and of its folder.
        work: the recipe's folder.
        steps: in all.
        parts: modules and optimizers that a checkpoint holds.
        step: takes its number, returns its losses by name.
    """
    saved, history, begun = work / name / "training.pt", list[dict[str, float]](), time.process_time()
    with StopRequest() as stop:
        for number in range(load_progress(saved, **parts), steps):
            wait_while_paused(work)
            torch.manual_seed(number)
            history.append(step(number))
            if (number + 1) % LOG_EVERY == 0:
                means = {loss: float(np.mean([one[loss] for one in history if loss in one])) for loss in history[-1]}
                shown = ", ".join(f"{loss} {value:.4f}" for loss, value in means.items())
                cost = (time.process_time() - begun) / len(history)
                log.info("%s step %d of %d: %s (%.2f core-seconds a step)", name, number + 1, steps, shown, cost)
                history, begun = [], time.process_time()
            if stop.number is not None or (number + 1) % CHECKPOINT_EVERY == 0 or number + 1 == steps:
                save_progress(saved, number + 1, **parts)
            if stop.number is not None and number + 1 < steps:
                log.warning("stopped after step %d of %d; the same command resumes there", number + 1, steps)
                raise SystemExit(EXIT_BASE + stop.number)


def half_precision(*, enabled: bool = True) -> torch.autocast:
    """Matrix products and convolutions in bfloat16 within the block, where the processor multiplies it natively."""
    return torch.autocast("cpu", torch.bfloat16, enabled=enabled and cpu_has_bf16())


@contextmanager
def evaluating(*modules: torch.nn.Module) -> Iterator[None]:
    """Modules in evaluation mode and without gradients, within the block."""
    for module in modules:
        module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module in modules:
            module.train()


def save_result(path: Path, module: torch.nn.Module) -> None:
    """Write a module's weights as safetensors."""
    write_weights(path, {name: tensor.contiguous() for name, tensor in module.state_dict().items()})
