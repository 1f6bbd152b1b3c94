"""A run's state, when and how it is saved, and putting the run back where it was when a checkpoint was written."""

import math
import time
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import torch
from torch import nn

from utils.callbacks import StepProgress
from utils.errors import UserError
from utils.jobs.child import StopRequest
from utils.model.lora import adapter_state, has_lora, load_adapter, merged_state
from utils.model.weights import State, load_in_parts, read_weights
from utils.performance_utils.tracker import PerformanceTracker
from utils.runs.checkpoints import Checkpoints, NotSaved, Tensors, read_state
from utils.runs.layout import ADAPTER_FILE, ASIDE, MODEL_FILE, OPTIMIZER_FILE
from utils.runs.log import EventWriter
from utils.runs.saver import Saver, Snapshot
from utils.training.data.load import TrainingData
from utils.training.data.loaders import Loaders
from utils.training.plan import BOUND, Resumed, RunPlan, portable
from utils.training.recovery import Recovery
from utils.training.samples import SampleWorker
from utils.training.switches.optim import optimizer_tensors
from utils.training.trainer import Trainer


@dataclass(kw_only=True)
class RunState:
    """Where a run is, as JSON values; state.json holds them beside what the services say of themselves."""

    data: str
    """Fingerprint of the clips."""
    epoch: int = 0
    batches_done: int = 0
    """Micro-batches of this epoch that all processes together have trained on."""
    losses: list[float] = field(default_factory=list)
    """Loss of each step of this epoch."""
    epoch_losses: list[float] = field(default_factory=list)
    """Mean training loss of each epoch."""
    best_loss: float = math.inf
    """Lowest evaluation loss."""
    evals_without_gain: int = 0
    """Evaluations in a row that were no better."""
    first_loss: float = math.nan
    last_loss: float = math.nan
    candidate: list[float] | None = None
    """Step and evaluation loss of the newest weights that are better than the best on the disk."""


@dataclass(kw_only=True)
class Services:
    """What a run works with."""

    plan: RunPlan
    folder: Path
    """The run's."""
    trainer: Trainer
    data: TrainingData
    loaders: Loaders
    checkpoints: Checkpoints
    saver: Saver
    log: EventWriter
    sampling: SampleWorker
    """Has each evaluation's weights spoken beside training."""
    recovery: Recovery
    """Takes the trainer's steps, in smaller pieces where memory runs out, and counts those that were skipped."""
    progress: StepProgress | None
    tracker: PerformanceTracker
    """Throughput of this process."""
    stop: StopRequest = field(default_factory=StopRequest)
    begun: float = field(default_factory=time.monotonic)
    """When this process began to train, on a clock that only runs forward."""

    @property
    def is_writer(self) -> bool:
        """Whether this is the process that writes the run's files."""
        return self.trainer.accelerator.is_main_process

    def total_steps(self, state: RunState) -> int:
        """Steps at the end of the last epoch, from where the run is now."""
        return self.trainer.num_steps + self.loaders.steps_left(state.epoch, state.batches_done)


def save(state: RunState, services: Services, *, wait: bool = False) -> None:
    """Begin to write the checkpoint a run can resume from, or wait until it is written; the first process does.

    Weights of the best evaluation become the best on disk with it, also when an earlier save of them failed.
    """
    if not services.is_writer:
        return
    begun, step, trainer = time.perf_counter(), services.trainer.num_steps, services.trainer
    # A copy: the lists keep growing while a thread writes it.
    values = asdict(state) | {
        "trainer": trainer.state(),
        "recovery": services.recovery.state(),
        "skipped": services.recovery.num_skipped,
        "plan": services.loaders.batches.plan_of(state.epoch),
        "global_micro_batches": services.loaders.global_micro_batches,
        "settings": portable(services.plan).plain(),
    }
    snapshot = Snapshot(
        step=step,
        files=files_of(trainer.gpt, trainer.optimizer),
        state=values,
        best_loss=best_loss_at(step, state.candidate),
    )
    services.saver.save(snapshot, wait=wait, begun=begun)


def best_loss_at(step: int, candidate: list[float] | None) -> float | None:
    """Evaluation loss of the weights at a step, when they are to be kept as the best."""
    return candidate[1] if candidate is not None and candidate[0] == step else None


def require_saved(services: Services) -> None:
    """Wait for the last save.

    Raises:
        UserError: the run's end is not on the disk.
    """
    services.sampling.poll(services.saver.finish())
    kept, failure = services.saver.saved_step, services.saver.failure
    if failure is not None:
        raise UserError(
            what=f"training has come to step {services.trainer.num_steps}, but "
            f"{'nothing is saved' if kept is None else f'only what it was at step {kept} is saved'}: {failure.what}",
            where=failure.where,
            fix=f"{failure.fix}, then continue with --resume, the steps since are trained again: "
            f"{services.recovery.resume_command}"
            if services.checkpoints.last()
            else f"{failure.fix}, then start the run again",
        ) from failure


def files_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensors]:
    """All tensors a run needs to resume, by file: the model as it speaks, LoRA's additions if any, and the moments."""
    additions = adapter_state(model)
    return {
        MODEL_FILE: merged_state(model),
        OPTIMIZER_FILE: optimizer_tensors(model, optimizer),
        **({ADAPTER_FILE: additions} if additions else {}),
    }


def restore_model(folder: Path, model: nn.Module) -> None:
    """Give the model the weights of a verified checkpoint; with LoRA only the additions, as the rest is the base's.

    Raises:
        UserError: it holds none for this model.
    """
    if has_lora(model):
        saved = read_weights(folder / ADAPTER_FILE) if (folder / ADAPTER_FILE).is_file() else {}
        own = adapter_state(model)
        if _shapes(saved) != _shapes(own):
            what = "the checkpoint holds no LoRA additions of this lora_rank"
            if saved and _shapes(saved).items() <= _shapes(own).items():
                what = "the checkpoint is of an earlier version, which did not train the added text rows"
            raise UserError(
                what=what,
                where=str(folder),
                fix="keep lora_rank as the run had it, or start a new run from its exported model",
            )
        load_adapter(model, saved)
        return

    def require_same(saved: State) -> None:
        # All that a GPT has are parameters; its `state_dict` would make whole weights of split ones.
        own = dict(model.named_parameters())
        if _shapes(saved) != _shapes(own):
            raise UserError(
                what="the checkpoint's weights are of another model", where=str(folder), fix="name another checkpoint"
            )

    load_in_parts(model, lambda: read_weights(folder / MODEL_FILE), require_same)


def _shapes(tensors: Tensors) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def load_optimizer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Give each parameter its moments back, from a checkpoint that was verified.

    Returns:
        What the user should know: moments that another kind of AdamW kept (in 8 bits or not) start from zero.

    Raises:
        UserError: the file is missing, or of a model in which other parameters learned.
    """
    parameters = dict(model.named_parameters())
    moments = read_weights(folder / OPTIMIZER_FILE)
    if other := next((key for key in moments if key.rsplit("/", 1)[0] not in parameters), None):
        raise UserError(
            what=f"the checkpoint's optimizer belongs to a model with other parameters, such as {other}",
            where=str(folder),
            fix="keep lora_rank as the run had it, or start a new run from its exported model",
        )
    is_fused = isinstance(optimizer, torch.optim.AdamW)
    for group_index, group in enumerate([] if is_fused else optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            # bitsandbytes lays out its own memory, which may be paged.
            optimizer.init_state(group, parameter, group_index, index)  # type: ignore[attr-defined]
    own = {"step", "exp_avg", "exp_avg_sq"} if is_fused else {"step", "state1", "state2", "absmax1", "absmax2"}
    if not {key.rsplit("/", 1)[1] for key in moments} <= own:
        optimizer.state.clear()
        return ["AdamW's moments start from zero: the checkpoint has them in another form"]
    for key, tensor in moments.items():
        name, field = key.rsplit("/", 1)
        state = optimizer.state[parameters[name]]
        if is_fused:
            state[field] = tensor.to(parameters[name].device)
        elif field == "step":
            state[field] = int(tensor)
        else:
            state[field].copy_(tensor)
    return []


def resume_run(services: Services, resumed: Resumed, data: str) -> tuple[RunState, list[str]]:
    """Resume from a checkpoint that was found whole.

    Args:
        services: just made, in the folder of the run that is resumed.
        resumed: the checkpoint, and what changed since.
        data: fingerprint of the clips there are.

    Returns:
        Where the run is, and what people should know of it.

    Raises:
        UserError: the checkpoint is of another model.
    """
    saved, trainer, notes = resumed.state, services.trainer, list[str]()
    restore_model(resumed.checkpoint, trainer.gpt)
    if not resumed.is_best:
        notes += load_optimizer(resumed.checkpoint, trainer.gpt, trainer.optimizer)
    trainer.load_state(saved["trainer"])
    services.recovery.num_skipped = saved.get("skipped", 0)
    if "recovery" in saved:
        services.recovery.load_state(saved["recovery"])
    # An earlier version knew fewer of its values.
    known = {one.name: saved[one.name] for one in fields(RunState) if one.name in saved}
    state = RunState(**(known | {"data": data}))
    # `batches_done` skips batches of the epoch's plan, which seed, clips and limits fix. Under another plan it would
    # skip clips that were never seen. Another device or kernel makes another plan, too.
    is_replanned = "plan" in saved and saved["plan"] != services.loaders.batches.plan_of(state.epoch)
    if saved["data"] != data or any(name in resumed.changed for name in BOUND) or is_replanned:
        if state.batches_done:
            notes.append(
                f"epoch {state.epoch + 1} begins again: its batches are new, {state.batches_done} were trained on"
            )
        state.batches_done, state.losses = 0, []
    if not resumed.is_best:
        services.saver.saved_step = trainer.num_steps
    trainer.schedule = replace(trainer.schedule, total_steps=services.total_steps(state))
    trainer.set_rate()
    if resumed.changed:
        changes = ", ".join(f"{name} {now} (was {then})" for name, (then, now) in resumed.changed.items())
        notes.append(f"resumed with other settings: {changes}")
    if resumed.is_best:
        notes.append(f"{resumed.checkpoint.name} holds weights only: the optimizer's moments start from zero")
    notes += [f"a newer checkpoint is damaged and was skipped: {message}" for message in resumed.skipped]
    return state, notes


def tidy_checkpoints(state: RunState, services: Services, resumed: Resumed) -> list[str]:
    """Tidy the checkpoints' folder: what a kill left behind goes, checkpoints of later steps step aside.

    Args:
        state, services: as the checkpoint restored them.
        resumed: the checkpoint; when its weights were the best and a kill came before they were kept as such, they are
            kept now.

    Returns:
        What people should know of it.
    """
    notes = []
    if removed := services.checkpoints.tidy():
        notes.append(f"an unfinished save was removed: {', '.join(removed)}")
    step = services.trainer.num_steps
    if left := services.checkpoints.set_aside_after(step):
        notes.append(f"resumed from step {step}; later checkpoints are kept as {', '.join(left)}")
    if best := services.checkpoints.best():
        kept = read_state(best)
        own_loss = best_loss_at(kept["step"], kept.get("candidate"))
        services.saver.best_loss = kept.get("loss_to_beat") or own_loss or kept.get("best_loss", math.inf)
    lost = best_loss_at(step, state.candidate)
    if lost is not None and lost < services.saver.best_loss:
        try:
            # It may have lain aside, whole but without its name, until the folder was tidied.
            services.checkpoints.link_best(services.checkpoints.folder / resumed.checkpoint.name.removeprefix(ASIDE))
            services.saver.best_loss = lost
        except NotSaved as error:
            notes.append(f"the best weights so far could not be kept as such: {error.what}")
    return notes
