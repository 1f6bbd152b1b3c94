"""Batches depend on seed, epoch and place only; each clip is seen once an epoch."""

from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

from tests.clip_tables import listed
from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.base import XTTS_CROP
from utils.bases.find import find_base
from utils.config import TrainConfig
from utils.model.packing import STOPS
from utils.training.data.batches import ClipDataset, collate, make_loader
from utils.training.data.clip_list import TrainingClip
from utils.training.data.epoch_batches import EpochBatches
from utils.training.data.load import TrainingData
from utils.training.data.loaders import Loaders
from utils.training.switches.optimizer import resolve

SHORTEST, LONGEST = XTTS_CROP


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> list[TrainingClip]:
    folder = tmp_path_factory.mktemp("clips")
    made = []
    for number, seconds in enumerate([1.0, 4.0, 8.0, 2.0, 7.0]):
        path = folder / f"{number}.wav"
        write_wav(path, speech(seconds, seed=number), 22_050)
        num_samples = round(seconds * 22_050)
        codes = np.arange(-(-num_samples // 1024), dtype=np.int16)
        tokens = torch.arange(21, 31, dtype=torch.int32)
        made.append(TrainingClip(audio=path, num_samples=num_samples, is_native=True, tokens=tokens, codes=codes))
    return made


def noise(path: Path, num_samples: int, *, seed: int) -> Path:
    """A file like no other."""
    samples = torch.rand(1, num_samples, generator=torch.Generator().manual_seed(seed)) - 0.5
    write_wav(path, samples, 22_050)
    return path


def holds(clip: TrainingClip, crop) -> bool:
    """Whether the crop was cut from this clip."""
    wav, _ = soundfile.read(clip.audio, dtype="float32")
    return bool((np.lib.stride_tricks.sliding_window_view(wav, 30) == crop[:30]).all(1).any())


def flat(batches) -> list:
    return list(chain.from_iterable(batches))


@pytest.mark.parametrize(("num_clips", "batch_size", "world"), [(10, 3, 2), (5, 4, 3), (2, 4, 3), (7, 1, 2)])
def test_processes_share_an_epoch_and_take_equally_many_steps(num_clips, batch_size, world):
    shares = [
        list(EpochBatches([1] * num_clips, batch_size, seed=1, rank=rank, world=world).epoch(0))
        for rank in range(world)
    ]
    assert len({len(share) for share in shares}) == 1
    assert {clip for share in shares for _, clip in flat(share)} == set(range(num_clips))


@pytest.mark.parametrize("start", [0, 4])
def test_any_number_of_processes_takes_the_same_batches_in_the_same_order(start):
    orders = []
    for world in (1, 2, 4):
        ranks = [EpochBatches([1] * 13, 2, seed=1, rank=rank, world=world) for rank in range(world)]
        rounds = zip(*(batches.epoch(3, start=start) for batches in ranks), strict=True)
        orders.append(list(chain.from_iterable(rounds))[: 7 - start])
    assert orders[0] == orders[1] == orders[2]
    assert orders[0] == list(EpochBatches([1] * 13, 2, seed=1).epoch(3))[start:]


def test_processes_share_an_evaluation_and_none_does_a_batch_twice(clips):
    config = TrainConfig(project="a", batch_size=1, eval_batch_size=2, num_epochs=1, device="cpu", conditioning="own")
    data = TrainingData(train=listed(clips), evaluate=listed(clips), dropped=[])
    parts = []
    for rank in range(2):
        here = SimpleNamespace(process_index=rank, num_processes=2, device=torch.device("cpu"))
        loaders = Loaders(config, find_base("tiny"), data, here, resolve(config, here.device))
        parts.append([batch.names for batch in loaders.evaluation])
    assert parts == [[["0.wav", "1.wav"], ["4.wav"]], [["2.wav", "3.wav"]]]


def test_crops_are_the_same_for_the_same_seed_epoch_and_clip(clips):
    shape = find_base("tiny").gpt_shape()

    def conditioning_of(seed: int, epoch: int) -> torch.Tensor:
        places = list(EpochBatches([1] * len(clips), 2, seed=None).epoch(epoch))
        loader = make_loader(
            ClipDataset(listed(clips), seed=seed, training=True),
            places,
            partial(collate, shape=shape, mask_conditioning=True),
            num_workers=0,
        )
        return torch.cat([batch.conditioning_audio for batch in loader])

    assert torch.equal(conditioning_of(1, 0), conditioning_of(1, 0))
    assert not torch.equal(conditioning_of(1, 0), conditioning_of(1, 1))
    assert not torch.equal(conditioning_of(1, 0), conditioning_of(2, 0))


def test_crop_lengths_and_places_are_stocks(clips):
    dataset = ClipDataset(listed(clips), seed=5, training=True)
    for epoch in range(20):
        for number, clip in enumerate(clips):
            _, _, crop, (start, end), _ = dataset[(epoch, number)]
            assert len(crop) == LONGEST
            assert 0 <= start < end <= clip.num_samples
            assert SHORTEST <= end - start <= LONGEST or end - start == clip.num_samples // 2
            assert not crop[end - start :].any()


def test_evaluation_hears_the_same_part_each_time_and_scores_everything(clips):
    dataset = ClipDataset(listed(clips), seed=5, training=False)
    assert dataset[(0, 2)].span == dataset[(9, 2)].span == (0, (SHORTEST + LONGEST) // 2)
    shape = find_base("tiny").gpt_shape()
    samples = [dataset[(0, number)] for number in range(len(clips))]
    scored = collate(samples, shape=shape, mask_conditioning=False).packed.num_code_targets
    assert scored == sum(len(clip.codes) + 4 for clip in clips)
    assert collate(samples, shape=shape, mask_conditioning=True).packed.num_code_targets < scored


def test_another_clip_of_the_speaker_is_heard_and_all_codes_count(clips, tmp_path):
    spoken = [
        replace(clip, speaker="ab"[number % 2], audio=noise(tmp_path / clip.audio.name, clip.num_samples, seed=number))
        for number, clip in enumerate(clips)
    ]
    spoken[-1] = replace(spoken[-1], speaker="alone")
    dataset = ClipDataset(listed(spoken), seed=5, training=True, crop=(11_025, 11_025), conditioning="other")
    join = partial(collate, shape=find_base("tiny").gpt_shape(), mask_conditioning=True)
    heard_by: dict[int, set[Path]] = {}
    for epoch in range(20):
        for number, clip in enumerate(spoken[:-1]):
            sample = dataset[(epoch, number)]
            source = next(other for other in spoken if holds(other, sample.conditioning_audio.numpy()))
            assert source is not clip
            assert source.speaker == clip.speaker
            assert sample.span is None
            assert join([sample]).packed.num_code_targets == len(clip.codes) + STOPS
            heard_by.setdefault(number, set()).add(source.audio)
    assert {number: len(sources) for number, sources in heard_by.items()} == {0: 1, 1: 1, 2: 1, 3: 1}


def test_the_only_clip_of_a_speaker_is_conditioned_on_itself(clips):
    spoken = [replace(clip, speaker=str(number)) for number, clip in enumerate(clips)]
    own = ClipDataset(listed(spoken), seed=5, training=True)
    other = ClipDataset(listed(spoken), seed=5, training=True, conditioning="other")
    for number in range(len(spoken)):
        assert own[(3, number)].span == other[(3, number)].span is not None
        assert torch.equal(own[(3, number)].conditioning_audio, other[(3, number)].conditioning_audio)


def test_no_row_is_ever_without_targets(clips):
    """Stock loses all targets of a batch of one about once in a hundred steps: the loss is then NaN."""
    dataset, join = (
        ClipDataset(listed(clips), seed=3, training=True),
        partial(collate, shape=find_base("tiny").gpt_shape(), mask_conditioning=True),
    )
    for epoch in range(50):
        for number in range(len(clips)):
            packed = join([dataset[(epoch, number)]]).packed
            assert packed.num_code_targets == (packed.code_targets != -1).sum() >= 4


def test_clips_of_like_length_share_a_batch_and_meet_others_each_epoch():
    lengths = np.random.default_rng(0).lognormal(5, 0.6, 400).astype(int).tolist()
    batches = EpochBatches(lengths, 8, seed=1)

    def padding(epoch_batches) -> float:
        rows = [[lengths[clip] for _, clip in batch] for batch in epoch_batches]
        return 1 - sum(lengths) / sum(max(row) * len(row) for row in rows)

    assert padding(batches.epoch(0)) < 0.15 < padding(EpochBatches(lengths, 8, seed=None).epoch(0))
    partners = [{frozenset(clip for _, clip in batch) for batch in batches.epoch(epoch)} for epoch in range(2)]
    assert len(partners[0] & partners[1]) < 3


@pytest.mark.parametrize("balanced", [False, True])
def test_what_is_measured_stands_for_an_epoch(balanced):
    """The largest batch for the memory, and some whose mean size is that of all for the time."""
    lengths = np.random.default_rng(3).integers(40, 600, 403).tolist()
    batches = EpochBatches(lengths, 4, seed=1, balanced=balanced)

    def size(batch: list) -> int:
        found = [lengths[clip] for _, clip in batch]
        return sum(found) if balanced else max(found) * len(found)

    sizes = [size(batch) for batch in batches.epoch(0)]
    largest, *others = batches.spread(5)
    assert size(largest) == max(sizes)
    assert [size(batch) for batch in others] == sorted(size(batch) for batch in others)
    assert np.mean([size(batch) for batch in others]) == pytest.approx(np.mean(sizes), rel=0.03)
    assert len(EpochBatches([50, 60], 4, seed=1).spread(3)) == 4, "an epoch of one batch is measured again and again"
