"""What a step that cannot be taken as it is means for a run: too little memory, or numbers that are not finite.

Out of memory, the step is repeated with smaller micro-batches. A step without a usable gradient is skipped; where such
steps persist, the run ends.

A step's gradients are sums over its clips, divided by the number of their targets: in how many pieces they are computed
changes the memory they take and, but for rounding and for which units dropout zeroes, nothing else. The effective
batch stays what it was.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch

from utils.errors import UserError, is_out_of_memory
from utils.options import LORA_RANK
from utils.project.advice import RESUME
from utils.training.data.batches import Batch
from utils.training.trainer import OVERFLOW, Gathered, Losses, StepResult, Trainer

SplitBatch = Callable[[Batch, int], list[Batch]]
"""The same clips in batches of this many or fewer."""
MAX_IN_A_ROW = 10
"""This many steps without a usable gradient are no accident."""
NUM_NAMED = 8
"""Clips named in a message at most."""


@dataclass(eq=False)
class Recovery:
    """Takes a run's steps and evaluations, makes micro-batches smaller when memory runs out, and counts skipped steps.

    Of several processes one that is out of memory ends: the others wait for it in the middle of their own passes.
    """

    trainer: Trainer
    """Takes the steps."""
    _: KW_ONLY
    split_train: SplitBatch
    split_eval: SplitBatch
    warn: Callable[..., None]
    """Called with what was changed; see `EventWriter.warn`."""
    resume_command: str = RESUME
    """Continues the run, for the advice."""
    max_clips: int | None = None
    """Clips in a training micro-batch; None while memory never ran out."""
    max_eval_clips: int | None = None
    forced_checkpointing: bool = False
    """Whether gradient checkpointing was turned on because memory ran out."""
    largest_eval: int = 0
    """Clips of the evaluation batch that is computed."""
    num_skipped: int = 0
    """Skipped steps of the whole run, with those that fp16's scaler handles by itself."""
    _in_a_row: list[list[str]] = field(default_factory=list)
    """Clips of the steps skipped since the last good one."""

    def state(self) -> dict[str, Any]:
        """What a resumed run must know: it computes in the same pieces, and does not run out of memory again."""
        return {"max_clips": self.max_clips, "max_eval_clips": self.max_eval_clips, "forced": self.forced_checkpointing}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.max_clips, self.max_eval_clips = state["max_clips"], state["max_eval_clips"]
        if state["forced"]:
            self.trainer.gpt.options.checkpointing, self.forced_checkpointing = "full", True

    def rehearse(self, batch: Batch) -> None:
        """Compute the gradients of the largest batch and discard them, before the first step.

        What does not fit is then known, and fixed by smaller micro-batches, at the start rather than after hours. Room
        is kept for AdamW's moments, which the first update makes. Each step draws from a seed of its own: the run is
        the same as without this. Not with several processes.

        Raises:
            UserError: one clip alone needs more memory than there is.
        """
        if self.trainer.accelerator.num_processes > 1 or batch.lost:
            return
        room = None
        if not self.trainer.optimizer.state:
            trained = sum(weights.numel() for weights in self.trainer.gpt.parameters() if weights.requires_grad)
            num_bytes = trained * (8 if isinstance(self.trainer.optimizer, torch.optim.AdamW) else 2)
            room = torch.empty(num_bytes, dtype=torch.uint8, device=self.trainer.device)
        # Reading the losses waits for the device: what it still has to do would count as part of the first step.
        self._gather([batch])[0].tolist()
        del room
        self.trainer.discard()
        self.trainer.clock.take()

    def step(self, batches: list[Batch]) -> StepResult:
        """One optimizer step, in as small pieces as it takes.

        Raises:
            UserError: one clip alone needs more memory than there is.
        """
        gathered = self._gather(batches)
        try:
            return self.trainer.update(gathered)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            # Not tried again: an optimizer that fails half-way has moved some weights already.
            raise UserError(
                what=f"out of memory in the optimizer at step {self.trainer.num_steps + 1}",
                where=str(self.trainer.device),
                fix=f"free memory that other programs use, then resume: {self.resume_command}",
            ) from error

    def evaluate(self, batches: Callable[[], Iterable[Batch]]) -> Losses:
        """Mean losses over an evaluation set.

        Args:
            batches: gives the set from its beginning; asked again when an attempt failed half-way.

        Raises:
            UserError: one clip alone needs more memory than there is.
        """
        while True:
            try:
                return self.trainer.evaluate(self._pieces(batches()))
            except (RuntimeError, MemoryError) as error:
                self._require_memory_fault(error)
            self._shrink_eval()

    def count_skipped(self, result: StepResult, names: list[str]) -> None:
        """Count the last step if it was skipped, and end the run where too many in a row were.

        Args:
            result: what it did.
            names: file names of its clips.

        Raises:
            UserError: no step in a row of many had a usable gradient; raised in all processes, as losses are sums.
        """
        if not result.skipped:
            self._in_a_row.clear()
            return
        self.num_skipped += 1
        if result.skipped == OVERFLOW:
            # The scaler halves its scale and the next step is likely to be fine: nothing is wrong with the numbers.
            return
        self._in_a_row.append(names)
        step, count, precision = self.trainer.num_steps, len(self._in_a_row), self.trainer.precision
        self.warn(
            f"step {step} was skipped, the weights are untouched: {result.skipped}; its clips: {listed(names)}",
            source="numbers",
            step=step,
            clips=names,
            in_a_row=count,
        )
        if count < MAX_IN_A_ROW:
            return
        in_all = set.intersection(*map(set, self._in_a_row))
        suspects = f"clips in all of them: {listed(sorted(in_all))}" if in_all else "no clip was in all of them"
        other = "" if precision == "fp32" else f", or train in fp32 instead of {precision}"
        raise UserError(
            what=f"{result.skipped} in {count} steps in a row, up to step {step}; the weights are those before them "
            f"({suspects}; clips of the last one: {listed(names)})",
            where=f"step {step}",
            fix=f"lower learning_rate, keep grad_clip_norm at 1.0{other}, and listen to the clips named; then resume "
            f"from the last checkpoint ({self.resume_command} --allow-changes), or start a new run",
        )

    def _gather(self, batches: list[Batch]) -> Gathered:
        while True:
            pieces = batches
            if self.max_clips is not None:
                pieces = [piece for batch in batches for piece in self.split_train(batch, self.max_clips)]
            try:
                return self.trainer.gather(pieces)
            except (RuntimeError, MemoryError) as error:
                self._require_memory_fault(error)
            # Outside the handler: the traceback held on to the activations of the failed forward.
            self.trainer.discard()
            self._shrink(pieces)

    def _pieces(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.largest_eval = len(batch.positions)
            yield from [batch] if self.max_eval_clips is None else self.split_eval(batch, self.max_eval_clips)

    def _require_memory_fault(self, error: BaseException) -> None:
        """Do nothing where one process alone is out of memory; every other error is passed on.

        Raises:
            UserError: one of several processes is out of memory.
        """
        if not is_out_of_memory(error):
            raise error
        accelerator = self.trainer.accelerator
        if accelerator.num_processes > 1:
            raise UserError(
                what=f"out of memory in process {accelerator.process_index} of {accelerator.num_processes} at step "
                f"{self.trainer.num_steps + 1}",
                where=str(self.trainer.device),
                fix="resume from the newest checkpoint with a smaller --batch-size or --gradient-checkpointing full: "
                f"{self.resume_command}",
            ) from error

    def _shrink(self, pieces: list[Batch]) -> None:
        """Halve the micro-batch; when it is a single clip already, keep fewer activations."""
        _free_memory(self.trainer.device)
        largest, step = max(len(piece.positions) for piece in pieces), f"step {self.trainer.num_steps + 1}"
        options = self.trainer.gpt.options
        if largest > 1:
            self.max_clips = -(-largest // 2)
            offer = "; with --gradient-checkpointing it may fit whole" if options.checkpointing == "none" else ""
            self.warn(
                f"out of memory at {step}: micro-batches have at most {self.max_clips} "
                f"clips from here on instead of {largest}, and more of them make a step: the effective batch stays "
                f"the same{offer}",
                source="memory",
                micro_batch=self.max_clips,
                pieces=sum(-(-len(piece.positions) // self.max_clips) for piece in pieces),
            )
        elif options.checkpointing == "none":
            options.checkpointing, self.forced_checkpointing = "full", True
            self.warn(
                f"out of memory at {step} with one clip in a micro-batch: gradient "
                "checkpointing is on from here on; it changes no result, steps take about a third longer",
                source="memory",
                micro_batch=1,
                gradient_checkpointing=True,
            )
        else:
            longest = max(pieces, key=lambda piece: piece.audio_seconds)
            raise UserError(
                what="out of memory with one clip in a micro-batch and gradient checkpointing on; the longest is "
                f"{longest.names[0]} with {longest.audio_seconds:.1f} s",
                where="training step",
                fix=f"use --lora-rank {LORA_RANK} or mixed_precision auto, lower max_audio_length, or close other "
                "programs",
            )

    def _shrink_eval(self) -> None:
        _free_memory(self.trainer.device)
        largest = min(self.largest_eval, self.max_eval_clips or self.largest_eval)
        if largest == 1:
            raise UserError(
                what="out of memory while evaluating a single clip",
                where=f"step {self.trainer.num_steps}",
                fix="lower max_audio_length, or free memory of other programs",
            )
        self.max_eval_clips = -(-largest // 2)
        self.warn(
            f"out of memory while evaluating: {self.max_eval_clips} clips at a time from here on, instead of {largest}",
            source="memory",
            eval_batch=self.max_eval_clips,
        )


def _free_memory(device: torch.device) -> None:
    """Release what the failed attempt held."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def listed(names: list[str], most: int = NUM_NAMED) -> str:
    """Names for people, and how many more there are than are shown."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
