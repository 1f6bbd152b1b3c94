"""Where the time of a training step goes, phase by phase.

The training process's own: data (waiting for clips), logging (writing events) and checkpoint (handing one to who writes
it). The device's: transfer (batches to it), and what it computes: forward, backward and optimizer.
"""

import time

import torch


class PhaseClock:
    """Adds up the seconds of phases that follow one another.

    On a GPU each boundary is an event in its queue, read once the device has passed it: timing waits for nothing, and
    a phase is as long as the device computes, not as long as launching it takes. Elsewhere it is the clock's time.

    Args:
        device: where the phases take place.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._marks: list[tuple[str, float | torch.cuda.Event]] = []
        """Phases that were begun, in order; the name is empty where nothing is counted."""

    def begin(self, phase: str) -> None:
        """Begin a phase, which ends the one before; an empty name only ends it."""
        if not self._is_gpu:
            self._marks.append((phase, time.perf_counter()))
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((phase, event))

    def take(self) -> dict[str, float]:
        """Seconds of each phase that has ended since the last call; what the device has not passed comes next time."""
        seconds: dict[str, float] = {}
        while len(self._marks) > 1:
            (phase, begun), (_, ended) = self._marks[:2]
            if isinstance(begun, torch.cuda.Event):
                assert isinstance(ended, torch.cuda.Event)
                if not ended.query():
                    break
                took = begun.elapsed_time(ended) / 1000
            else:
                assert not isinstance(ended, torch.cuda.Event)
                took = ended - begun
            if phase:
                seconds[phase] = seconds.get(phase, 0.0) + took
            self._marks.pop(0)
        return seconds
