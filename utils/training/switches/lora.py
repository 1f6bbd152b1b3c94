"""LoRA: low-rank additions to the blocks learn, all other weights stay."""

import logging

from utils.config import TrainConfig
from utils.model.gpt import XttsGpt
from utils.model.lora import AddedRows, add_lora, halve_frozen, has_lora
from utils.training.switches.base import Behavior, Seen, Trace
from utils.training.switches.optim import DTYPES

log = logging.getLogger(__name__)


def _add_lora(gpt: XttsGpt, effective: TrainConfig) -> None:
    if effective.lora_rank:
        add_lora(gpt, effective.lora_rank, seed=effective.seed)
        if effective.device == "cuda" and effective.mixed_precision != "fp32":
            halve_frozen(gpt, DTYPES[effective.mixed_precision])
        if gpt.added_rows is None:
            log.warning("LoRA leaves all text rows as they are: the base's about.json does not say which were added")


def _lora(trace: Trace) -> Seen:
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in trace.model.parameters()]
    trained, whole = sum(size for size, learns in sizes if learns), sum(size for size, _ in sizes)
    observed = f"{trained / 1e6:.2f} of {whole / 1e6:.2f} million parameters learn"
    if not has_lora(trace.model):
        return Seen(False, observed)
    if isinstance(trace.model.text_embedding, AddedRows):
        observed += f", {len(trace.model.text_embedding.added_ids):,} added text rows among them"
    if trace.model.added_rows is None:
        observed += "; text rows that were added to the base's vocabulary do not: its about.json does not name them"
    return Seen(True, observed)


LORA = Behavior(apply=_add_lora, observe=_lora)
