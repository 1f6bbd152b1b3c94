"""Counters of the server in Prometheus' text format (version 0.0.4)."""

from collections import Counter

from utils.hardware.resources import process_memory
from utils.server.service import SpeechService

FIRST_SOUND_BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds."""


class Metrics:
    """What has happened since the start.

    Args:
        service: whose speech is counted.
    """

    def __init__(self, service: SpeechService) -> None:
        self._service = service
        self.requests: Counter[tuple[str, str]] = Counter()
        """By route and status; `aborted` where an answer was begun and not finished."""
        self._buckets = [0] * (len(FIRST_SOUND_BOUNDS) + 1)
        self._sum = 0.0

    def text(self) -> str:
        """All of them."""
        service = self._service
        self._take_first_sounds()
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

    def _take_first_sounds(self) -> None:
        waiting = self._service.first_sounds
        while waiting:
            seconds = waiting.popleft()
            place = next((n for n, bound in enumerate(FIRST_SOUND_BOUNDS) if seconds <= bound), len(FIRST_SOUND_BOUNDS))
            self._buckets[place] += 1
            self._sum += seconds

    def _histogram(self, lines: list[str]) -> None:
        name = "xtts_first_sound_seconds"
        lines += [f"# HELP {name} From a request to its first sound.", f"# TYPE {name} histogram"]
        total = 0
        for bound, count in zip((*FIRST_SOUND_BOUNDS, "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        lines += [f"{name}_sum {self._sum:.6f}", f"{name}_count {total}"]
