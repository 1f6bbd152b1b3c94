"""Choose the device that a program speaks on: not one that PyTorch cannot use, nor one that a training has."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from utils.jobs.child import hold
from utils.jobs.device import device_holder, in_use, wanted_device
from utils.options import ComputeDevice, Device, UsedDevice
from utils.performance_utils.device import settle_device

log = logging.getLogger(__name__)


def speech_device(requested: ComputeDevice, output: Path) -> UsedDevice:
    """cpu, cuda or mps; where auto does not take the GPU that this machine has, the reason is logged.

    Args:
        requested: the setting.
        output: the folder that holds all projects.

    Raises:
        UserError: cuda was requested, and PyTorch cannot use it or a job has it.
    """
    device, reason = settle_device(requested)
    if device == "cuda":
        holder = device_holder(wanted_device(requested), output)
        if holder is not None:
            error = in_use("the GPU", holder, fix="wait until it has ended, or use the CPU")
            if requested == "cuda":
                raise error
            device, reason = "cpu", f"speaking on the CPU: {error.what}"
    if reason:
        log.warning(reason)
    return device


@contextmanager
def held_device(kind: str, requested: Device, *, output: Path, folder: Path) -> Iterator[UsedDevice]:
    """As `speech_device`, for work that no other job may disturb: a GPU is claimed until the block ends.

    Args:
        kind: evaluate, ...: as others read it.
        requested: the setting.
        output: the folder that holds all projects.
        folder: where the work is done, for people.

    Raises:
        UserError: cuda was requested, and PyTorch cannot use it or a job has it.
    """
    device = speech_device(requested, output)
    with ExitStack() as stack:
        if device == "cuda":
            stack.enter_context(hold(kind, device="cuda", output=output, folder=folder))
        yield device
