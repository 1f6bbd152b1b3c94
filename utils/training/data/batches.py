"""Clips to batches: deterministic for a seed, epoch and position, whatever the number of workers.

Shapes: B clips, S samples of conditioning audio.
"""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from utils.audio.container import unreadable
from utils.audio.decode import load_audio
from utils.bases.base import XTTS_CROP
from utils.errors import UserError
from utils.jobs.child import leave_stops_to_trainer
from utils.model.packing import NO_STATIC_SHAPE, Layout, PackedBatch, StaticShape, pack
from utils.model.shapes import GptShape
from utils.options import CODE_SAMPLES, DATASET_RATE, Conditioning
from utils.training.data.clip_list import ClipList, TrainingClip
from utils.training.data.epoch_batches import Place


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One micro-batch."""

    packed: PackedBatch
    conditioning_audio: Tensor
    """Conditioning audio of each clip, zero-padded, [B, S]; rows of silence follow where there is room for more."""
    audio_seconds: float
    """Speech in this batch, without padding."""
    names: list[str]
    """File names of the clips, for messages."""
    positions: list[Place]
    """Which clips these are, so that the batch can be made again in smaller ones."""
    text_lengths: list[int]
    """Text tokens of each clip."""
    code_lengths: list[int]
    """Codes of each clip."""
    lost: list[str]
    """Clips that could not be read, each with the reason; such a batch is not to be trained on."""
    number: int = 0
    """Which micro-batch of its optimizer step this is, over all processes; pieces of one keep its number."""
    is_filler: bool = False
    """Whether it counts nothing: this process computes it because the others have one micro-batch more."""

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory; the loader calls this."""
        return replace(self, packed=self.packed.pin_memory(), conditioning_audio=self.conditioning_audio.pin_memory())


class Sample(NamedTuple):
    """A clip and its conditioning audio."""

    place: Place
    clip: TrainingClip
    conditioning_audio: Tensor
    """The crop, padded to the longest, [S]."""
    span: tuple[int, int] | None
    """The crop's (start, end) in samples of the clip itself; None where the crop is of another clip."""
    fault: str = ""
    """Why the crop could not be read; it is silent then."""


@dataclass(frozen=True, eq=False)
class ClipDataset(Dataset[Sample]):
    """Clips with a conditioning crop each."""

    clips: ClipList
    _: KW_ONLY
    seed: int
    """With epoch and clip number it fixes the crop."""
    training: bool
    """Random crops; otherwise always a clip's beginning, so that evaluations compare."""
    crop: tuple[int, int] = XTTS_CROP
    """Shortest and longest crop, in samples; XTTS v2 was trained with 3 to 6 s (coqui-tts, GPTArgs)."""
    conditioning: Conditioning = "own"
    """Where the crop is from; with `other`, a speaker's only clip is conditioned on itself."""

    def __getitem__(self, place: Place) -> Sample:
        """The clip with its crop.

        A recording that is missing or shorter than it was is reported in the sample, not raised: an exception loses its
        type on its way out of a worker process.
        """
        number, (source_number, (start, end)) = place[1], self._crop(place)
        clip, source = self.clips[number], self.clips[source_number]
        audio, span = torch.zeros(self.crop[1]), (start, end) if source_number == number else None
        try:
            crop = _read(source, start, end - start)
        except UserError as error:
            return Sample(place, clip, audio, span, fault=error.what)
        if len(crop) != end - start:
            return Sample(place, clip, audio, span, fault=f"{source.audio.name} is shorter than it was")
        audio[: len(crop)] = crop
        return Sample(place, clip, audio, span)

    def span(self, place: Place) -> tuple[int, int] | None:
        """Where in the clip itself the crop lies, (start, end) in samples; None where the crop is of another clip."""
        source, span = self._crop(place)
        return span if source == place[1] else None

    def _crop(self, place: Place) -> tuple[int, tuple[int, int]]:
        """Which clip a place is conditioned on, and where in it, (start, end) in samples; always the same."""
        random, source = np.random.default_rng([self.seed, *place]), place[1]
        if self.conditioning == "other":
            # A thousandth of a second for a million clips.
            peers = np.flatnonzero(self.clips.speakers == self.clips.speakers[source])
            own = int(np.searchsorted(peers, source))
            # Only where there is a choice: the crops of clips that are conditioned on themselves stay what they were.
            ahead = 0 if len(peers) == 1 else int(random.integers(1, len(peers))) if self.training else 1
            source = int(peers[(own + ahead) % len(peers)])
        return source, self._span(int(self.clips.num_samples[source]), random)

    def _span(self, length: int, random: np.random.Generator) -> tuple[int, int]:
        """Where the crop lies; of a clip shorter than the crop, half is used (coqui-tts, get_prompt_slice)."""
        shortest, longest = self.crop
        wanted = int(random.integers(shortest, longest + 1)) if self.training else (shortest + longest) // 2
        size = wanted if wanted <= length else length // 2
        start = int(random.integers(0, length - size + 1)) if self.training else 0
        return start, start + size


def collate(
    samples: list[Sample],
    *,
    shape: GptShape,
    mask_conditioning: bool,
    learn_reading: bool = False,
    layout: Layout = "rows",
    static_shape: StaticShape = NO_STATIC_SHAPE,
) -> Batch:
    """Samples to one packed batch.

    Args:
        samples: clips with their conditioning audio.
        shape: of the model.
        mask_conditioning: do not score the codes that a clip's own crop covers (`own_masked`, in training).
        learn_reading: say where in the text each code is, for clips with word times.
        layout: a row a clip, or one packed row.
        static_shape: what a batch is filled up to, so that all have one shape.
    """
    clips = [sample.clip for sample in samples]
    # Codes [start, end) under each clip's own crop: none where the crop is of another clip.
    starts_and_ends = [sample.span or (0, 0) for sample in samples]
    covered = [(start // CODE_SAMPLES, end // CODE_SAMPLES) for start, end in starts_and_ends]
    audio = torch.stack([sample.conditioning_audio for sample in samples])
    packed = pack(
        [clip.tokens for clip in clips],
        [torch.from_numpy(np.array(clip.codes)) for clip in clips],
        shape,
        conditioned_codes=covered if mask_conditioning else None,
        reading=[torch.from_numpy(clip.tokens_read()) for clip in clips] if learn_reading else None,
        layout=layout,
        static_shape=static_shape,
    )
    return Batch(
        packed=packed,
        conditioning_audio=F.pad(audio, (0, 0, 0, max(static_shape.clips - len(samples), 0))),
        audio_seconds=sum(clip.seconds for clip in clips),
        names=[clip.audio.name for clip in clips],
        positions=[sample.place for sample in samples],
        text_lengths=[len(clip.tokens) for clip in clips],
        code_lengths=[len(clip.codes) for clip in clips],
        lost=[sample.fault for sample in samples if sample.fault],
    )


Collate = Callable[[list[Sample]], Batch]
"""`collate` for a model and a layout; a `partial`, which worker processes are able to receive."""


def split_batch(batch: Batch, dataset: ClipDataset, collate: Collate, *, max_clips: int) -> list[Batch]:
    """The same clips with the same conditioning, in batches of `max_clips` or fewer; nothing is read again."""
    if len(batch.positions) <= max_clips:
        return [batch]
    samples = [
        Sample(place, dataset.clips[place[1]], audio, dataset.span(place))
        for place, audio in zip(batch.positions, batch.conditioning_audio[: len(batch.positions)], strict=True)
    ]
    pieces = (collate(samples[at : at + max_clips]) for at in range(0, len(samples), max_clips))
    return [replace(piece, number=batch.number, is_filler=batch.is_filler) for piece in pieces]


def make_loader(dataset: ClipDataset, batches: Iterable[list[Place]], collate: Collate, **options: Any) -> DataLoader:
    """A loader that yields exactly these batches in this order; `options` as of torch's DataLoader."""
    return DataLoader(
        dataset,
        batch_sampler=batches,  # type: ignore[arg-type]  # torch asks for a length that it never uses here
        collate_fn=collate,
        worker_init_fn=leave_stops_to_trainer,
        **options,
    )


def _read(clip: TrainingClip, start: int, count: int) -> Tensor:
    """Samples [start, start + count) of a clip, [count], or fewer where it is shorter than it was.

    A clip of a foreign format is decoded whole each time.

    Raises:
        UserError: the file is missing, no sound, or of another format than it was.
    """
    if not clip.is_native:
        return load_audio(clip.audio, DATASET_RATE)[0, start : start + count]
    try:
        with soundfile.SoundFile(clip.audio) as sound:
            if (sound.samplerate, sound.channels) != (DATASET_RATE, 1):
                found = f"is {sound.samplerate} Hz with {sound.channels} channels, not {DATASET_RATE} Hz mono"
                raise unreadable(clip.audio, found, fix="prepare the dataset again")
            sound.seek(min(start, sound.frames))
            return torch.from_numpy(sound.read(count, dtype="float32"))
    except soundfile.LibsndfileError as error:
        raise unreadable(clip.audio, f"cannot be read ({error})", fix="prepare the dataset again") from error
