"""Counters of the server in Prometheus' text format (version 0.0.4)."""

from collections.abc import Mapping
from itertools import accumulate

from utils.hardware.resources import process_memory
from utils.server.service import SpeechService
from utils.speech.generation import FIRST_SOUND_BOUNDS


def metrics(service: SpeechService) -> str:
    """What has happened since the start."""
    counts, lines = service.counts, list[str]()

    def metric(name: str, kind: str, about: str, samples: float | Mapping[str, float]) -> None:
        lines.extend([f"# HELP xtts_{name} {about}", f"# TYPE xtts_{name} {kind}"])
        found = samples if isinstance(samples, Mapping) else {"": samples}
        lines.extend(f"xtts_{name}{labels} {value}" for labels, value in found.items())

    requests = {f'{{route="{route}",status="{status}"}}': n for (route, status), n in sorted(counts.requests.items())}
    metric("requests_total", "counter", "Answered requests.", requests)
    metric("speech_seconds_total", "counter", "Seconds of speech.", round(counts.speech_s, 3))
    metric("requests_live", "gauge", "Requests being spoken or waiting.", service.num_live)
    metric("queue_length", "gauge", "Requests of which no sentence was begun.", service.num_waiting())
    metric("batch_size", "gauge", "Sentences being decoded.", service.num_active())
    steps = {f'{{sentences="{size}"}}': n for size, n in sorted(counts.steps.copy().items())}
    metric("decode_steps_total", "counter", "Decoding steps by sentences side by side.", steps)
    metric("out_of_memory_total", "counter", "Times that memory ran out.", counts.out_of_memory)
    models = {f'{{model="{name}"}}': size for name, size in service.loaded().items()}
    metric("model_bytes", "gauge", "Memory of loaded models.", models)
    metric("resident_bytes", "gauge", "Memory of the process.", process_memory())
    bounds = [str(bound).replace("inf", "+Inf") for bound in FIRST_SOUND_BOUNDS]
    totals = list(accumulate(counts.first_sounds[bound] for bound in FIRST_SOUND_BOUNDS))
    sounds: dict[str, float] = {f'_bucket{{le="{bound}"}}': total for bound, total in zip(bounds, totals, strict=True)}
    sounds |= {"_sum": round(counts.first_sound_s, 6), "_count": totals[-1]}
    metric("first_sound_seconds", "histogram", "From a request to its first sound.", sounds)
    return "\n".join([*lines, ""])
