"""A run's batches: which clips, in which layout, by how many processes, for training and for evaluation."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from accelerate import Accelerator
from torch.utils.data import DataLoader

from utils.bases.base import Base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.hardware.loader import loader_settings
from utils.model.packing import NO_STATIC_SHAPE, ROW_MULTIPLE, StaticShape, round_up, row_length
from utils.performance_utils.device import pinning_fault
from utils.training.data.batches import Batch, ClipDataset, Collate, collate, make_loader, split_batch
from utils.training.data.epoch_batches import EpochBatches
from utils.training.data.load import TrainingData
from utils.training.switches.base import Switches

CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
"""Ways of compiling that record CUDA graphs."""
SHAPE_STEP = 256
"""Batches of one shape are filled up to a multiple of this many positions."""


class Loaders:
    """Makes the batches of a run.

    Args:
        config: settled settings.
        base: whose tokens and crops the clips have.
        data: the clips.
        accelerator: which process this is, of how many.
        switches: the layout that the attention kernel wants.
        global_micro_batches: of one optimizer step over all processes, as the run began with them; 0 for a run of a
            version that did not keep it.

    Raises:
        UserError: a clip is longer than `batch_tokens`.
    """

    def __init__(
        self,
        config: TrainConfig,
        base: Base,
        data: TrainingData,
        accelerator: Accelerator,
        switches: Switches,
        global_micro_batches: int = 0,
    ) -> None:
        assert config.conditioning
        self._config, self._base, self._data, self._switches = config, base, data, switches
        self._conditioning = config.conditioning
        self.global_micro_batches = global_micro_batches
        self.batches_per_step = global_micro_batches or config.grad_accumulation * accelerator.num_processes
        """Micro-batches of an optimizer step, of all processes; an epoch's last step may have fewer."""
        self.batches = EpochBatches(
            data.train.positions(row_length(0, 0, base.gpt_shape())),
            config.batch_size,
            max_tokens=config.batch_tokens,
            seed=config.seed,
            balanced=switches.layout == "packed",
            drawn=data.drawn,
            rank=accelerator.process_index,
            world=accelerator.num_processes,
        )
        """Of training, in each epoch."""
        room, needed = config.batch_tokens, round_up(int(self.batches.lengths.max()), ROW_MULTIPLE)
        if 0 < room < needed:
            name = data.train[int(self.batches.lengths.argmax())].audio.name
            raise UserError(
                what=f"batch_tokens is {room} positions, but the clip {name} alone takes {needed}",
                where="training settings",
                fix=f"use {needed} or more, or lower max_audio_length",
            )
        # In the order of the manifest.
        self._eval_batches = EpochBatches(
            data.evaluate.positions(row_length(0, 0, base.gpt_shape())), config.eval_batch_size, seed=None
        )
        self._static_shapes = {True: self._training_shape(), False: self._shape_of(self._eval_batches, num_epochs=1)}
        """The static shape of every batch, by whether it trains."""
        self._device = accelerator.device
        settings, off = self._settings()
        if off:
            switches.off["loader"] = "; ".join(off)
        self.loader = make_loader(
            self._dataset(training=True),
            self.batches,
            self._collate(self._static_shapes[True], training=True),
            **settings,
        )
        """Of the batches that train: one for all epochs, whose processes live on."""
        # In a fixed order; one process may have a batch less.
        plan, world = self._eval_batches.everywhere(0), self.batches.world
        self.evaluation = make_loader(
            self._dataset(training=False),
            [[(0, clip) for clip in batch] for batch in plan[self.batches.rank :: world]],
            self._collate(self._static_shapes[False], training=False),
        )
        """Of this process's part of the evaluation batches."""

    def steps_left(self, epoch: int, batches_done: int) -> int:
        """Optimizer steps to the end of the last epoch, from where this many micro-batches of an epoch are done."""
        assert self._config.num_epochs
        done = {epoch: batches_done}
        left = (self.batches.count(one) - done.get(one, 0) for one in range(epoch, self._config.num_epochs))
        return sum(math.ceil(count / self.batches_per_step) for count in left)

    @property
    def clips_per_step(self) -> int:
        """Clips of an optimizer step, of all processes; with batches by positions on average."""
        if not self._config.batch_tokens:
            return self._config.batch_size * self.batches_per_step
        return round(self.batches.num_clips / self.batches.count(0) * self.batches_per_step)

    def train(self, epoch: int, start: int) -> DataLoader:
        """This process's micro-batches of an epoch when all together have done `start`."""
        self.batches.wanted = self.batches.epoch(epoch, start=start)
        return self.loader

    def spread(self, count: int, *, largest: bool) -> DataLoader:
        """Batches to measure with, by the same loader: `count` that stand for an epoch, or its largest and those."""
        self.batches.wanted = self.batches.spread(count)[0 if largest else 1 :]
        return self.loader

    def largest(self) -> Batch:
        """The largest micro-batch of the first epoch, where a step's memory is at its peak."""
        return next(iter(self.spread(1, largest=True)))

    def steps(self, epoch: int, start: int) -> Iterator[list[Batch]]:
        """What `train` brings, by optimizer step; the epoch's last step may have fewer micro-batches."""
        rank, world, source = self.batches.rank, self.batches.world, iter(self.train(epoch, start))
        while group := list(islice(source, self.batches_per_step // world)):
            # A run of an earlier version continues with its dropout: one sequence of draws for each process.
            step = world if self.global_micro_batches else 0
            yield [
                replace(
                    batch,
                    number=rank + place * step,
                    is_filler=start + rank + place * world >= self.batches.count(epoch),
                )
                for place, batch in enumerate(group)
            ]
            start += len(group) * world

    def close(self) -> None:
        """End the processes that read. Left to the garbage collector, torch waits five seconds for each of them: it
        closes the queue first, through which they would learn it."""
        iterator, self.loader._iterator = self.loader._iterator, None
        if iterator is not None and self.loader.num_workers:
            iterator._shutdown_workers()  # type: ignore[attr-defined]  # torch has no public way

    def splitter(self, *, training: bool) -> Callable[[Batch, int], list[Batch]]:
        """Makes smaller batches of one."""
        # Of whatever size: a batch is made smaller because memory is short.
        static_shape = (
            StaticShape(longest=self._static_shapes[training].longest)
            if self._switches.layout == "packed"
            else NO_STATIC_SHAPE
        )
        dataset, joined = self._dataset(training=training), self._collate(static_shape, training=training)
        return lambda batch, max_clips: split_batch(batch, dataset, joined, max_clips=max_clips)

    def _dataset(self, *, training: bool) -> ClipDataset:
        """Clips that are cropped at random where they train."""
        return ClipDataset(
            self._data.train if training else self._data.evaluate,
            seed=self._config.seed,
            training=training,
            crop=self._base.defaults.crop,
            conditioning=self._conditioning,
        )

    def _collate(self, static_shape: StaticShape, *, training: bool) -> Collate:
        return partial(
            collate,
            shape=self._base.gpt_shape(),
            mask_conditioning=training and self._conditioning == "own_masked",
            learn_reading=training and self._config.reading_weight > 0,
            layout=self._switches.layout,
            static_shape=static_shape,
        )

    def _training_shape(self) -> StaticShape:
        config = self._config
        if config.max_mel_length:
            assert config.max_text_length
            size = config.batch_size
            clip = row_length(config.max_text_length, config.max_mel_length, self._base.gpt_shape())
            return StaticShape(clips=size, longest=clip, total=round_up(clip * size, SHAPE_STEP))
        assert config.num_epochs
        return self._shape_of(self.batches, num_epochs=config.num_epochs)

    def _shape_of(self, batches: EpochBatches, *, num_epochs: int) -> StaticShape:
        """The static shape of batches that compiled blocks compute with."""
        mode, longest = self._switches.effective.compile, int(batches.lengths.max())
        if mode in CUDA_GRAPHS:
            # They are recorded for one shape. Batches are balanced: the longest is little longer than the others.
            clips, total = batches.most_clips(num_epochs), batches.longest(num_epochs)
            return StaticShape(clips=clips, longest=longest, total=round_up(total, SHAPE_STEP))
        # The variable-length kernel takes the longest clip as a number, which code is compiled for.
        return StaticShape(longest=longest) if mode != "off" and self._switches.layout == "packed" else NO_STATIC_SHAPE

    def _settings(self) -> tuple[dict[str, Any], list[str]]:
        config, fault = self._config, pinning_fault() if self._device.type == "cuda" else ""
        if fault:
            self._switches.off["loader"] = f"pinned memory failed its trial: {fault}"
        return loader_settings(
            num_clips=len(self._data.train),
            device=self._device.type,
            dataset_bytes=self._data.audio_bytes,
            num_workers=config.num_workers,
            prefetch_factor=config.prefetch_factor,
            pin_memory=False if fault else config.pin_memory,
        )
