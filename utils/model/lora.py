"""LoRA on the transformer blocks: low-rank additions are trained, all other weights stay, and saved models are merged.

Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"; the layers are peft's.
"""

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

from utils.model.exact import exact_float32

TARGETS = ["c_attn", "c_proj", "c_fc"]
"""All four projections of a block (`c_proj` is the name of two)."""
SCALE = 2.0
"""alpha / rank: the addition's weight."""
_ADAPTER = "default"
_BASE = ".base_layer"


def add_lora(gpt: nn.Module, rank: int) -> nn.Module:
    """Freeze the model and add trainable low-rank matrices of `rank` to its blocks, in place."""
    gpt.requires_grad_(False)
    # The blocks' Conv1D keeps weights as [in, out]; the additions begin at zero, so the model speaks as before.
    config = LoraConfig(r=rank, lora_alpha=int(SCALE * rank), target_modules=TARGETS, fan_in_fan_out=True)
    inject_adapter_in_model(config, gpt, adapter_name=_ADAPTER)
    return gpt


def has_lora(gpt: nn.Module) -> bool:
    """Whether low-rank additions are in the model."""
    return any(isinstance(module, LoraLayer) for module in gpt.modules())


@torch.no_grad()
@exact_float32()
def merged_state(gpt: nn.Module) -> dict[str, Tensor]:
    """The model's weights under their usual names, additions added exactly; of a model without any, its plain state."""
    additions = {name: module for name, module in gpt.named_modules() if isinstance(module, LoraLayer)}
    state = {}
    for name, tensor in gpt.state_dict().items():
        if ".lora_" in name:
            continue
        owner, _, leaf = name.rpartition(".")
        owner = owner.removesuffix(_BASE)
        if owner in additions and leaf == "weight":
            # On the processor, one at a time: a GPU that needs LoRA has no room for a second model.
            delta: Tensor = additions[owner].get_delta_weight(_ADAPTER)  # type: ignore[attr-defined]
            tensor = tensor.cpu() + delta.cpu().to(tensor.dtype)
        state[f"{owner}.{leaf}" if owner else leaf] = tensor
    return state


def adapter_state(gpt: nn.Module) -> dict[str, Tensor]:
    """The additions alone, as a run needs them to go on; empty without LoRA."""
    return {name: tensor for name, tensor in gpt.state_dict().items() if ".lora_" in name}


def load_adapter(gpt: nn.Module, state: dict[str, Tensor]) -> None:
    """Take up what `adapter_state` gave.

    Raises:
        AssertionError: names of another model or rank.
    """
    assert set(state) == set(adapter_state(gpt)), "additions of another model"
    gpt.load_state_dict(state, strict=False)
