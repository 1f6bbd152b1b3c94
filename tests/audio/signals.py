"""Signals with known content, and files of every format made from them."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch
from torch import Tensor


def tone(seconds: float, sample_rate: int, *, hertz: float = 440.0, amplitude: float = 0.5) -> Tensor:
    """A sine, [1, T]."""
    time = torch.arange(round(seconds * sample_rate), dtype=torch.float64) / sample_rate
    return (amplitude * torch.sin(2 * torch.pi * hertz * time)).float()[None]


def encode(path: Path, wav: Tensor, sample_rate: int, *, codec: str, container: str, video: bool = False) -> Path:
    """Write `wav`, [1, T], with FFmpeg's encoders."""
    with av.open(str(path), "w", format=container) as output:
        picture = output.add_stream("mpeg4", rate=5) if video else None
        stream = output.add_stream(codec, rate=sample_rate, layout="mono")
        if picture is not None:
            picture.width, picture.height = 32, 32
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), dtype=np.uint8), format="rgb24")
            output.mux([*picture.encode(frame), *picture.encode(None)])
        sound = av.AudioFrame.from_ndarray(wav.numpy(), format="fltp", layout="mono")
        sound.sample_rate = sample_rate
        output.mux([*stream.encode(sound), *stream.encode(None)])
    return path


def silent_film(path: Path) -> Path:
    """A video without an audio stream."""
    with av.open(str(path), "w", format="mp4") as output:
        stream = output.add_stream("mpeg4", rate=5)
        stream.width, stream.height = 32, 32
        frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), dtype=np.uint8), format="rgb24")
        output.mux([*stream.encode(frame), *stream.encode(None)])
    return path


def noise_to_signal(wav: Tensor, reference: Tensor) -> float:
    """Power of what differs, relative to the reference; both [1, T], compared over the shorter, best lag within 50 ms.

    Codecs may delay the signal by some samples.
    """
    length = min(wav.shape[1], reference.shape[1]) - 3_000
    target = reference[:, 1_500 : 1_500 + length]
    lags = range(0, 3_000)
    windows = wav[0].unfold(0, length, 1)
    errors = [(windows[lag] - target[0]).square().mean() for lag in lags if lag < len(windows)]
    return float(min(errors) / target.square().mean())


def film(path: Path, wav: Tensor, sample_rate: int, *, codec: str, container: str, delay_s: float) -> Path:
    """`wav`, [1, T], beside a picture of the same length; the sound begins so much later, or earlier."""
    later, seconds = max(0.0, delay_s), wav.shape[1] / sample_rate
    with av.open(str(path), "w", format=container) as output:
        picture = output.add_stream({"webm": "libvpx", "mpegts": "mpeg2video"}.get(container, "mpeg4"), rate=25)
        picture.width, picture.height = 32, 32
        track = output.add_stream(codec, rate=sample_rate, layout="mono")
        packets = []
        for index in range(round((seconds + later) * 25)):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), dtype=np.uint8), format="rgb24")
            frame.pts, frame.time_base = index + round(max(0.0, -delay_s) * 25), Fraction(1, 25)
            packets += picture.encode(frame)
        sound = av.AudioFrame.from_ndarray(wav.numpy(), format="fltp", layout="mono")
        sound.sample_rate, sound.pts, sound.time_base = (
            sample_rate,
            round(later * sample_rate),
            Fraction(1, sample_rate),
        )
        as_coded = av.AudioResampler(format=track.format.name, layout="mono", rate=sample_rate)
        for part in [*as_coded.resample(sound), *as_coded.resample(None)]:
            packets += track.encode(part)
        packets += [*picture.encode(None), *track.encode(None)]
        output.mux(sorted(packets, key=lambda packet: float((packet.dts or 0) * packet.time_base)))
    return path
