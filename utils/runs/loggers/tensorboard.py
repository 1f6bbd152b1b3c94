"""TensorBoard: curves and samples in the run's folder, for `tensorboard --logdir output/NAME/runs`; loads no torch."""

import time
import wave
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from utils.runs.loggers import scalars

FOLDER = "tensorboard"


class TensorBoardLogger:
    """See `utils.runs.loggers.Logger`; a resumed run adds a file to those that are there."""

    def __init__(self, run: Path, config: dict[str, Any]) -> None:
        self._run = run
        self._writer = EventFileWriter(str(run / FOLDER))

    def event(self, kind: str, fields: dict[str, Any]) -> None:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(kind, fields)]
        if kind == "sample":
            values.append(_sound(f"sample/{fields['sentence']}", self._run / fields["path"]))
        if values:
            self._writer.add_event(
                Event(wall_time=time.time(), step=fields.get("step", 0), summary=Summary(value=values))
            )

    def close(self) -> None:
        self._writer.close()


def _sound(tag: str, path: Path) -> Any:
    with wave.open(str(path)) as sound:
        audio = Summary.Audio(
            sample_rate=sound.getframerate(),
            num_channels=sound.getnchannels(),
            length_frames=sound.getnframes(),
            encoded_audio_string=path.read_bytes(),
            content_type="audio/wav",
        )
    return Summary.Value(tag=tag, audio=audio)
