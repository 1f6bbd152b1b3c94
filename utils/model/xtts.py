"""Build the GPT from a state dict, and put GPT, decoder and mel statistics together as one XTTS state dict."""

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.shapes import GptShape
from utils.model.weights import DECODER_PREFIX, GPT_PREFIX, NoRandomWeights, State, load_strictly


def build_gpt(
    shape: GptShape, state: State | Callable[[], State], *, where: str, options: ForwardOptions | None = None
) -> XttsGpt:
    """A GPT of these sizes holding these weights.

    Args:
        shape: sizes and special tokens.
        state: the weights, or what reads them from a file, once for each part (see `load_in_parts`).
        where: they are from, for messages.
        options: how the training forward computes.

    Raises:
        UserError: the weights do not fit, with both sizes named.
    """
    with NoRandomWeights():
        gpt = XttsGpt(shape, options)
    load_strictly(gpt, state, where=where)
    return gpt.float()


def full_state(gpt: Mapping[str, Tensor], decoder: Mapping[str, Tensor], mel_stats: Tensor) -> State:
    """All tensors of a model under the names that stock's Xtts loads strictly."""
    return {
        **{GPT_PREFIX + name: tensor for name, tensor in gpt.items()},
        **{DECODER_PREFIX + name: tensor for name, tensor in decoder.items()},
        "mel_stats": mel_stats,
    }


def initialize_gpt(gpt: XttsGpt) -> None:
    """Weights to start training from nothing, in place: N(0, 0.02), residual projections narrower by sqrt(2 layers).

    Source: GPT-2 (Radford et al. 2019), as in Hugging Face's GPT2PreTrainedModel._init_weights.
    """
    for module in gpt.modules():
        if isinstance(module, nn.Embedding | nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for name, parameter in gpt.gpt.named_parameters():
        if name.endswith("c_proj.weight"):
            nn.init.normal_(parameter, std=0.02 / (2 * gpt.shape.layers) ** 0.5)
