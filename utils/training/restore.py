"""Weights and optimizer state from a checkpoint into a model that is about to train."""

from pathlib import Path

import torch
from torch import Tensor, nn

from utils.checkpoints.layout import ADAPTER_FILE, MODEL_FILE, OPTIMIZER_FILE
from utils.checkpoints.store import Tensors, log
from utils.errors import UserError
from utils.model.lora import adapter_state, has_lora, load_adapter, merged_state
from utils.model.weights import read_weights
from utils.training.optimizer.adamw8bit import AdamW8bit, is_quantized
from utils.training.optimizer.offload import OffloadedAdamW


def files_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensors]:
    """All tensors a run needs to go on, by file: the model as it speaks, LoRA's additions if any, and the moments."""
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
    saved, own = read_weights(folder / MODEL_FILE), model.state_dict()
    if {name: t.shape for name, t in saved.items()} != {name: t.shape for name, t in own.items()}:
        raise UserError(
            what="the checkpoint's weights are of another model", where=str(folder), fix="name another checkpoint"
        )
    model.load_state_dict(saved)


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors under `parameter/key` names: the order of parameter groups then does not matter."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
        if isinstance(value, Tensor)
    }


def load_optimizer(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Give each parameter its moments back, from a checkpoint that was verified.

    Moments that another kind of AdamW kept (8-bit or not) start anew, and the log says so. All kinds keep those of
    small parameters alike.

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
    codes = {key.rsplit("/", 1)[0] for key in moments if key.endswith("_codes")}
    kept = {key.rsplit("/", 1)[0] for key in moments}
    is_8bit = isinstance(optimizer, AdamW8bit)
    if codes != {name for name in kept if is_8bit and is_quantized(parameters[name])}:
        log.warning("AdamW's moments start anew: the checkpoint kept them in another form")
        return
    # Offloaded moments stay in the machine's memory, and a count of steps that is read each step does too.
    on_host = isinstance(optimizer, OffloadedAdamW)
    for key, tensor in moments.items():
        name, field = key.rsplit("/", 1)
        parameter = parameters[name]
        stays = on_host or (isinstance(optimizer, AdamW8bit) and field == "step")
        optimizer.state[parameter][field] = tensor if stays else tensor.to(parameter.device)
