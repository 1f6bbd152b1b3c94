"""Counters of the server in Prometheus' text format (version 0.0.4)."""

from collections import Counter

from utils.hardware.resources import process_memory
from utils.server.service import SpeechService
from utils.speech.generation import FIRST_SOUND_BOUNDS


class Metrics:
    """What has happened since the start.

    Args:
        service: whose speech is counted.
    """

    def __init__(self, service: SpeechService) -> None:
        self._service = service
        self.requests: Counter[tuple[str, str]] = Counter()
        """By route and status; `aborted` where an answer was begun and not finished."""

    def text(self) -> str:
        """All of them."""
        service = self._service
        lines: list[str] = []

        def metric(name: str, kind: str, about: str, samples: dict[str, float]) -> None:
            lines.extend([f"# HELP xtts_{name} {about}", f"# TYPE xtts_{name} {kind}"])
            lines.extend(f"xtts_{name}{labels} {value}" for labels, value in samples.items())

        requests = {f'{{route="{route}",status="{status}"}}': n for (route, status), n in sorted(self.requests.items())}
        metric("requests_total", "counter", "Answered requests.", dict(requests))
        metric("speech_seconds_total", "counter", "Seconds of speech.", {"": round(service.counts.speech_s, 3)})
        metric("requests_live", "gauge", "Requests being spoken or waiting.", {"": service.num_live})
        metric("queue_length", "gauge", "Requests of which no sentence was begun.", {"": service.num_waiting()})
        metric("batch_size", "gauge", "Sentences being decoded.", {"": service.num_active()})
        steps = {f'{{sentences="{size}"}}': n for size, n in sorted(service.counts.steps.copy().items())}
        metric("decode_steps_total", "counter", "Decoding steps by sentences side by side.", dict(steps))
        metric("out_of_memory_total", "counter", "Times that memory ran out.", {"": service.counts.out_of_memory})
        models = {f'{{model="{name}"}}': size for name, size in service.loaded().items()}
        metric("model_bytes", "gauge", "Memory of loaded models.", dict(models))
        metric("resident_bytes", "gauge", "Memory of the process.", {"": process_memory()})
        self._histogram(lines)
        return "\n".join([*lines, ""])

    def _histogram(self, lines: list[str]) -> None:
        name, counts, total = "xtts_first_sound_seconds", self._service.counts, 0
        lines += [f"# HELP {name} From a request to its first sound.", f"# TYPE {name} histogram"]
        for bound in FIRST_SOUND_BOUNDS:
            total += counts.first_sounds[bound]
            lines.append(f'{name}_bucket{{le="{str(bound).replace("inf", "+Inf")}"}} {total}')
        lines += [f"{name}_sum {counts.first_sound_s:.6f}", f"{name}_count {total}"]
