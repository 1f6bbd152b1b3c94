"""The memory panel: each GPU with what this run and others use, or the system memory if there is no GPU."""

from utils.hardware.gpu import Gpu
from utils.hardware.resources import GIB
from utils.jobs import Job
from utils.runs.log import Event, number_of
from webui import text
from webui.markup import Markup, join, tag
from webui.monitor import MachineSample, Monitor
from webui.views.chart import Curve, line_chart
from webui.views.parts import bar, fact_row, framed, memory_size, message

COLORS = ("own", "good", "warn", "others")
"""Of the GPUs' curves, in turn."""


def panel(reading: MachineSample, job: Job | None, memory: Event | None) -> Markup:
    """The panel as it is now.

    Args:
        reading: what the driver and the system say.
        job: the run that is shown, when it is alive.
        memory: that run's newest memory event.
    """
    shown = [_gpu(gpu, job, memory) for gpu in reading.gpus] or [_no_gpu(reading, job, memory)]
    return framed(text.MEMORY_PANEL, *shown)


def _gpu(gpu: Gpu, job: Job | None, memory: Event | None) -> Markup:
    own = _own_bytes(gpu, job, memory)
    others = max(0, gpu.used_bytes - own)
    facts = [f"GPU {gpu.index}: {gpu.name}", memory_size(gpu.total_bytes)]
    facts += [text.UTILIZATION.format(percent=gpu.utilization)] if gpu.utilization is not None else []
    facts += [f"{gpu.temperature} °C"] if gpu.temperature is not None else []
    heading = tag("div", " · ".join(facts), class_="device")
    pieces = [
        ("own", own / gpu.total_bytes, text.USED_BY_RUN),
        ("others", others / gpu.total_bytes, text.USED_BY_OTHERS),
    ]
    caption = text.gpu_use(memory_size(own) if own else None, memory_size(others), memory_size(gpu.free_bytes))
    return join(heading, bar(text.MEMORY, pieces, caption), _of_run(memory) if own else None)


def _own_bytes(gpu: Gpu, job: Job | None, memory: Event | None) -> int:
    """What the run uses on this GPU: by the driver's count, or else as torch reserved it."""
    if job is None or not (job.device or "").startswith("cuda"):
        return 0
    if job.pid is not None and gpu.processes.get(job.pid):
        return gpu.processes[job.pid] or 0
    place = job.device.rsplit(":", 1)[-1] if job.device and ":" in job.device else "0"
    # A part of a divided GPU (MIG) goes by its long name, as `wanted_device` gives it.
    if memory is None or place not in (str(gpu.index), *(part.uuid.replace("/", "-") for part in gpu.parts)):
        return 0
    return min(int(number_of(memory, "reserved_bytes") or 0), gpu.used_bytes)


def _no_gpu(reading: MachineSample, job: Job | None, memory: Event | None) -> Markup:
    machine = reading.memory
    used = machine.total_bytes - machine.available_bytes
    own = int(number_of(memory or {}, "rss_bytes") or 0) if job else 0
    pieces = [
        ("own", own / machine.total_bytes, text.USED_BY_RUN),
        ("others", max(0, used - own) / machine.total_bytes, text.USED_BY_OTHERS),
    ]
    caption = text.MEMORY_USE.format(used=memory_size(used), total=memory_size(machine.total_bytes))
    return join(
        message("hint", text.no_gpu(reading.gpu_reason)),
        bar(text.SYSTEM_MEMORY, pieces, caption),
        _of_run(memory) if job else None,
    )


def _of_run(memory: Event | None) -> Markup | None:
    """Allocated, reserved and peak, in the run's own words."""
    if memory is None:
        return None
    known = [
        (name, number_of(memory, f"{name}_bytes")) for name in ("allocated", "reserved", "peak", "rss", "peak_rss")
    ]
    cells = [(tag("b", memory_size(value)), " ", text.MEMORY_WORDS[name]) for name, value in known if value is not None]
    return fact_row(cells) if cells else None


def history(monitor: Monitor) -> Markup:
    """Memory in use over the last minutes: a line for each GPU, or one for the machine."""
    readings = monitor.history()
    devices: dict[str, list[tuple[float, float, float]]] = {}
    for reading in readings:
        # Fine enough for the eye, and equal to what was sent before while nothing changes.
        minutes, machine = round((reading.time - readings[-1].time) / 60, 2), reading.memory
        used = [(f"GPU {gpu.index}", gpu.used_bytes, gpu.total_bytes) for gpu in reading.gpus]
        used = used or [(text.SYSTEM_MEMORY, machine.total_bytes - machine.available_bytes, machine.total_bytes)]
        for name, in_use, total in used:
            devices.setdefault(name, []).append((minutes, round(in_use / GIB, 2), round(total / GIB, 2)))
    curves = [
        Curve(name=name, points=[(at, in_use) for at, in_use, _ in found], color=COLORS[number % len(COLORS)])
        for number, (name, found) in enumerate(devices.items())
    ]
    peak = max((point for curve in curves for point in curve.points), key=lambda point: point[1], default=None)
    for name, found in devices.items():
        level = [(found[end][0], found[end][2]) for end in (0, -1)]
        curves.append(Curve(name=f"{name}: {text.MEMORY_LIMIT}", points=level, color="warn", is_faint=True))
    return line_chart(
        text.MEMORY_PLOT,
        curves,
        x_title=text.MINUTES,
        y_title=text.GIGABYTES,
        best=(text.MEMORY_PEAK.format(most=memory_size(peak[1] * GIB)), peak) if peak else None,
        starts_at_zero=True,
    )
