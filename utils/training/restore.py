"""Putting a run where it was when a checkpoint was written: weights, moments, schedule and place in the data."""

import logging
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from utils.errors import UserError
from utils.model.lora import adapter_state, has_lora, load_adapter, merged_state
from utils.model.weights import State, load_in_parts, read_weights
from utils.runs.checkpoints import NotSaved, Tensors, read_state
from utils.runs.layout import ADAPTER_FILE, ASIDE, MODEL_FILE, OPTIMIZER_FILE, OPTIMIZER_PARTS
from utils.training.optimizer.make import extend_schedule, optimizer_tensors
from utils.training.optimizer.sharding import part_of, read_parts
from utils.training.plan import Resumed
from utils.training.settings import BOUND
from utils.training.state import RunState, Services, best_loss_at

log = logging.getLogger(__name__)


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
        if {name: t.shape for name, t in saved.items()} != {name: t.shape for name, t in own.items()}:
            what = "the checkpoint holds no LoRA additions of this lora_rank"
            if saved and all(name in own and own[name].shape == tensor.shape for name, tensor in saved.items()):
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
        own = {name: parameter.shape for name, parameter in model.named_parameters()}
        if {name: tensor.shape for name, tensor in saved.items()} != own:
            raise UserError(
                what="the checkpoint's weights are of another model", where=str(folder), fix="name another checkpoint"
            )

    own = dict(model.named_parameters())
    load_in_parts(
        model,
        lambda: read_weights(folder / MODEL_FILE),
        require_same,
        place=lambda name, tensor: part_of(tensor, own[name]),
    )


def load_optimizer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Give each parameter its moments back, from a checkpoint that was verified.

    Returns:
        What the user should know: moments that another kind of AdamW kept (in 8 bits or not) start from zero.

    Raises:
        UserError: the file is missing, or of a model in which other parameters learned.
    """
    parameters = dict(model.named_parameters())
    moments = _read_moments(folder, parameters)
    if other := next((key for key in moments if key.rsplit("/", 1)[0] not in parameters), None):
        raise UserError(
            what=f"the checkpoint's optimizer belongs to a model with other parameters, such as {other}",
            where=str(folder),
            fix="keep lora_rank as the run had it, or start a new run from its exported model",
        )
    is_fused = isinstance(optimizer, torch.optim.AdamW)
    for group_index, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            if not is_fused:
                # bitsandbytes lays out its own memory, which may be paged.
                optimizer.init_state(group, parameter, group_index, index)  # type: ignore[attr-defined]
    own = {"step", "exp_avg", "exp_avg_sq"} if is_fused else {"step", "state1", "state2", "absmax1", "absmax2"}
    if not {key.rsplit("/", 1)[1] for key in moments} <= own:
        optimizer.state.clear()
        return ["AdamW's moments start from zero: the checkpoint has them in another form"]
    for key, tensor in moments.items():
        name, field = key.rsplit("/", 1)
        parameter = parameters[name]
        state = optimizer.state[parameter]
        if is_fused:
            state[field] = (part_of(tensor, parameter) if tensor.ndim else tensor).to(parameter.device)
        elif field == "step":
            state[field] = int(tensor)
        else:
            state[field].copy_(tensor)
    return []


def _read_moments(folder: Path, parameters: dict[str, nn.Parameter]) -> State:
    """The moments of a checkpoint, in one file or in parts; parts are cut as the parameters are, or put together."""
    if not (folder / OPTIMIZER_PARTS).is_dir():
        return read_weights(folder / OPTIMIZER_FILE)

    def like(key: str) -> Tensor | None:
        name, field = key.rsplit("/", 1)
        if name not in parameters:
            return None
        return torch.zeros(()) if field == "step" else part_of(torch.zeros(parameters[name].shape), parameters[name])

    return read_parts(folder / OPTIMIZER_PARTS, like)


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
    services.divergence.num_skipped = saved.get("skipped", 0)
    if "recovery" in saved:
        services.recovery.load_state(saved["recovery"])
        if services.is_sharded:
            # Sharded weights are gathered in each pass: processes must not split their batches into different numbers.
            services.recovery.max_clips = None
    state = RunState.from_json(saved, data=data)
    # `batches_done` skips batches of the epoch's plan, which seed, clips and limits fix. Under another plan it would
    # skip clips that were never seen. Another device or kernel makes another plan, too.
    is_replanned = "plan" in saved and saved["plan"] != services.loaders.plan_of(state.epoch)
    if saved["data"] != data or any(name in resumed.changed for name in BOUND) or is_replanned:
        if state.batches_done:
            notes.append(
                f"epoch {state.epoch + 1} begins anew: its batches are others now, {state.batches_done} were trained on"
            )
        state.batches_done, state.losses = 0, []
    if not resumed.is_best:
        services.saver.saved_step = trainer.num_steps
    extend_schedule(trainer.schedule, total_steps=services.total_steps(state))
    if resumed.changed:
        changes = ", ".join(f"{name} {now} (was {then})" for name, (then, now) in resumed.changed.items())
        notes.append(f"resumed with other settings: {changes}")
    if resumed.is_best:
        notes.append(f"{resumed.checkpoint.name} holds weights only: the optimizer's moments start anew")
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
        notes += _keep_best(services, resumed, lost)
    return notes


def _keep_best(services: Services, resumed: Resumed, loss: float) -> list[str]:
    try:
        # It may have lain aside, whole but without its name, until the folder was tidied.
        services.checkpoints.link_best(services.checkpoints.folder / resumed.checkpoint.name.removeprefix(ASIDE))
    except NotSaved as error:
        return [f"the best weights so far could not be kept as such: {error.what}"]
    services.saver.best_loss = loss
    return []
