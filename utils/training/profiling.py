"""A trace of a run's first steps by torch.profiler, and the operations that cost most (`--profile`)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch.autograd import DeviceType
from torch.profiler import ProfilerAction, profile

TRACE_FILE = "trace.json.gz"
"""In the run's folder; chrome://tracing and ui.perfetto.dev show it."""
NUM_SHOWN = 10

log = logging.getLogger(__name__)


@contextmanager
def profiled_steps(folder: Path, num_steps: int) -> Iterator[Callable[[], None]]:
    """Trace steps, after a first one that sets things up, into a folder, and log what cost most.

    Args:
        folder: of the run.
        num_steps: how many; 0 traces nothing. Where there are fewer, those are traced.

    Yields:
        A function to call after each step.
    """
    if not num_steps:
        yield lambda: None
        return
    path = folder / TRACE_FILE

    def write(trace: profile) -> None:
        if trace.step_num < 2:
            return
        trace.export_chrome_trace(str(path))
        # Kernels count with the operation that launched them.
        ops = [op for op in trace.key_averages() if op.device_type == DeviceType.CPU and not op.is_user_annotation]
        on_gpu = any(op.self_device_time_total for op in ops)
        times = {op: op.self_device_time_total if on_gpu else op.self_cpu_time_total for op in ops}
        log.info("costliest operations of the profiled steps on the %s; all in %s", "GPU" if on_gpu else "CPU", path)
        for op in sorted(ops, key=lambda op: -times[op])[:NUM_SHOWN]:
            share = times[op] / sum(times.values())
            log.info("%-50s %7d calls %9.1f ms %6.1f%%", op.key[:50], op.count, times[op] / 1e3, 100 * share)

    def action(step: int) -> ProfilerAction:
        # Not in the first step, whose operations prove the switches: two profilers exclude each other.
        if not 0 < step <= num_steps:
            return ProfilerAction.NONE
        return ProfilerAction.RECORD_AND_SAVE if step == num_steps else ProfilerAction.RECORD

    with profile(schedule=action, on_trace_ready=write, acc_events=True) as trace:
        yield trace.step
    if (done := max(trace.step_num - 1, 0)) < num_steps:
        log.warning("%d of %d steps were profiled: from the second one to the first evaluation", done, num_steps)
