"""LoRA on the transformer blocks: train low-rank additions, keep all other weights, export merged models.

Text rows that were added to the base's vocabulary are trained in full: they begin as means of other rows, and frozen
they would stay that. Shapes: R text rows, N added ones, D model width.

Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"; the layers are peft's.
"""

import sys
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.model.gpt import Conv1D, XttsGpt
from utils.model.no_tf32 import exact_float32
from utils.model.weights import NoRandomWeights

TARGETS = ["c_attn", "c_proj", "c_fc"]
"""All four projections of a block (`c_proj` is the name of two)."""
SCALE = 2.0
"""alpha / rank: the addition's weight."""
_ADAPTER = "default"
_BASE = ".base_layer"


ADDED_PART = ".added_"
_LEARNED = (".lora_", ADDED_PART)
"""Parts of the names of tensors that learn."""


class AddedRows(nn.Module):
    """A table of which some rows learn; the whole table stays as it was beside them."""

    weight: Tensor
    added_weight: nn.Parameter
    """The rows that learn, [N, D]."""
    added_ids: Tensor
    """Which rows of the table they replace, [N]."""

    def _learn(self, ids: Sequence[int]) -> None:
        self.requires_grad_(False)
        self.register_buffer("added_ids", torch.tensor(ids, device=self.weight.device), persistent=False)
        self.added_weight = nn.Parameter(self.weight[self.added_ids].detach())

    def merged(self, leaf: str) -> Tensor:
        """Weight or bias on the CPU, with the rows as they were trained."""
        table, rows = getattr(self, leaf).cpu(), getattr(self, f"added_{leaf}").cpu()
        return table.index_copy(0, self.added_ids.cpu(), rows)


class GrownEmbedding(AddedRows, nn.Embedding):
    """An embedding of which only the added rows learn.

    Args:
        plain: the embedding; its weight is taken over, not copied.
        ids: the added rows.
    """

    indices: Tensor
    """Of each row of the table its number among those that learn, or -1: [R]."""

    def __init__(self, plain: nn.Embedding, ids: Sequence[int]) -> None:
        nn.Embedding.__init__(self, plain.num_embeddings, plain.embedding_dim, _weight=plain.weight.detach())
        self._learn(ids)
        indices = torch.full((plain.num_embeddings,), -1, device=plain.weight.device)
        indices[self.added_ids] = torch.arange(len(ids), device=plain.weight.device)
        self.register_buffer("indices", indices, persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """Ids [...] -> [..., D]."""
        indices = self.indices[input]
        own = F.embedding(indices.clamp(min=0), self.added_weight)
        return torch.where((indices >= 0).unsqueeze(-1), own, nn.Embedding.forward(self, input))


class GrownHead(AddedRows, nn.Linear):
    """A head of which only the added rows and their biases learn; see `GrownEmbedding`."""

    def __init__(self, plain: nn.Linear, ids: Sequence[int]) -> None:
        nn.Linear.__init__(self, plain.in_features, plain.out_features, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        self._learn(ids)
        self.added_bias = nn.Parameter(self.bias[self.added_ids].detach())

    def forward(self, input: Tensor) -> Tensor:
        """[..., D] -> [..., R]."""
        own = F.linear(input, self.added_weight, self.added_bias)
        return nn.Linear.forward(self, input).index_copy(-1, self.added_ids, own)


def add_lora(gpt: nn.Module, rank: int, *, seed: int = 0) -> nn.Module:
    """Freeze the model and add what is trained, in place.

    Args:
        gpt: a model with `added_rows` learns these rows of its text embedding and head as well.
        rank: of the low-rank matrices that each block gets.
        seed: chooses their first values; the global random numbers are left where they are.
    """
    from peft import LoraConfig, inject_adapter_in_model  # takes seconds to load, and most runs go without

    gpt.requires_grad_(False)
    # The blocks' Conv1D keeps weights as [in, out]; the additions begin at zero, so the model speaks as before.
    config = LoraConfig(r=rank, lora_alpha=int(SCALE * rank), target_modules=TARGETS, fan_in_fan_out=True)
    # torch.manual_seed would seed each GPU as well; the first values are drawn on the CPU.
    generator = torch.default_generator
    before = generator.get_state()
    try:
        generator.manual_seed(seed)
        _as_peft_knows_them(gpt)
        inject_adapter_in_model(config, gpt, adapter_name=_ADAPTER)
    finally:
        generator.set_state(before)
    if isinstance(gpt, XttsGpt) and gpt.added_rows:
        gpt.text_embedding = GrownEmbedding(gpt.text_embedding, gpt.added_rows)
        gpt.text_head = GrownHead(gpt.text_head, gpt.added_rows)
    return gpt


def halve_frozen(gpt: nn.Module, dtype: torch.dtype) -> None:
    """Hold frozen weights of matrix products in half precision, in place; states keep their float32 values.

    Autocast would make the same copies in each pass. The float32 values stay in the machine's memory, for saving.
    """
    for layer in gpt.modules():
        weight = getattr(layer, "weight", None)
        is_product = isinstance(layer, nn.Linear | nn.Conv1d) or type(layer).__name__ == Conv1D.__name__
        if is_product and weight is not None and not weight.requires_grad and not isinstance(layer, AddedRows):
            layer.whole_weight = weight.detach().cpu()
            weight.data = weight.to(dtype)
            layer.register_state_dict_post_hook(
                lambda layer, state, prefix, _: state.update({f"{prefix}weight": layer.whole_weight})
            )


def _as_peft_knows_them(gpt: nn.Module) -> None:
    """Make each of our Conv1D layers one of the class that peft adds to, around the same weights."""
    from transformers.pytorch_utils import Conv1D as PeftConv1D

    for parent in list(gpt.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, Conv1D):
                with NoRandomWeights():
                    known = PeftConv1D(layer.weight.shape[1], layer.weight.shape[0])
                known.weight, known.bias = layer.weight, layer.bias
                setattr(parent, name, known)


def has_lora(gpt: nn.Module) -> bool:
    """Whether low-rank additions are in the model."""
    return bool(_lora_layers(gpt))


@torch.no_grad()
@exact_float32()
def merged_state(gpt: nn.Module) -> dict[str, Tensor]:
    """The model's weights under their usual names, additions added exactly; of a model without any, its plain state."""
    additions = _lora_layers(gpt)
    grown = {name: module for name, module in gpt.named_modules() if isinstance(module, AddedRows)}
    state = {}
    for name, tensor in gpt.state_dict().items():
        if _is_learned(name):
            continue
        owner, _, leaf = name.rpartition(".")
        owner = owner.removesuffix(_BASE)
        if owner in grown:
            tensor = grown[owner].merged(leaf)
        if owner in additions and leaf == "weight":
            # On the processor, one at a time: a GPU that needs LoRA has no room for a second model.
            delta: Tensor = additions[owner].get_delta_weight(_ADAPTER)  # type: ignore[operator]
            tensor = tensor.cpu() + delta.cpu().to(tensor.dtype)
        state[f"{owner}.{leaf}" if owner else leaf] = tensor
    return state


def adapter_state(gpt: nn.Module) -> dict[str, Tensor]:
    """What learns alone, as a run needs it to resume: additions and added rows; empty without LoRA."""
    return {name: tensor for name, tensor in gpt.state_dict().items() if _is_learned(name)}


def low_rank_pairs(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, tuple[Tensor, Tensor]]:
    """Of each layer that learned: A [r, I] and B [r, O], whose product A^T B is what its weight [I, O] gets.

    Args:
        state: from `adapter_state`.
        dtype: to round to. A power of two moves from one side to the other, so that neither gets too small for float16.
    """
    pairs = {}
    for name, down in state.items():
        layer, found, _ = name.partition(".lora_A.")
        if found:
            up = SCALE * state[name.replace(".lora_A.", ".lora_B.")].T
            sizes = up.abs().max() / down.abs().max()
            shift = torch.exp2(torch.log2(sizes.clamp(min=torch.finfo(dtype).tiny)).div(2).round())
            pairs[layer] = ((down * shift).to(dtype), (up / shift).to(dtype))
    return pairs


def load_adapter(gpt: nn.Module, state: dict[str, Tensor]) -> None:
    """Load what `adapter_state` gave.

    Raises:
        AssertionError: names of another model or rank.
    """
    assert set(state) == set(adapter_state(gpt)), "additions of another model"
    gpt.load_state_dict(state, strict=False)


def _is_learned(name: str) -> bool:
    return any(part in name for part in _LEARNED)


def _lora_layers(gpt: nn.Module) -> dict[str, nn.Module]:
    # A model has peft's layers only where peft was loaded.
    layers = sys.modules.get("peft.tuners.lora")
    return {name: module for name, module in gpt.named_modules() if layers and isinstance(module, layers.LoraLayer)}
