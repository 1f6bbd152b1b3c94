"""Grow a base's text embedding and head: new rows start as means of the rows they replace.

Shapes: R rows before, N new rows, D model width.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from utils.bases.base import ADDED_ROWS, Base, spans_of
from utils.bases.find import GROWN, write_about
from utils.errors import UserError
from utils.files import new_folder
from utils.model.weights import State, write_weights

EMBEDDING = "gpt.text_embedding.weight"
HEAD, HEAD_BIAS = "gpt.text_head.weight", "gpt.text_head.bias"
QUIET_NATS = 12.0
"""How much less likely than its pieces a new token begins in the text head: a softmax over more rows would otherwise
change what the loss says of old languages. The head only trains the text loss; speech never asks it."""
TUNED_DVAE = "tuned_dvae"
"""In about.json: how the model's own DVAE was trained on."""
COPIED = ("config.json", "speakers_xtts.pth", "mel_stats.pth", "reference.wav")
INHERITED = ("training", "training_data", "loads_in", "amharic_g2p", TUNED_DVAE)
"""Of the other base's about.json what holds for the grown one, too; how it was made, measured and packed does not."""


def grow_base(
    base: Base,
    vocab: str,
    pieces: Mapping[int, list[int]],
    folder: Path,
    about: dict[str, Any],
    *,
    dvae: Path | None = None,
) -> Base:
    """A copy of `base` with another vocabulary and rows for its new tokens; it appears whole or not at all.

    Args:
        base: a published base, a fine-tuned model, or one that was grown before.
        vocab: the larger tokenizer file's content; all old ids stay.
        pieces: old ids that each new id stands for.
        folder: where the grown base goes; must not exist, or be empty.
        about: facts for its about.json, beside those that hold for `base` as well (`INHERITED`) and its license.
        dvae: a DVAE of its own; the one of `base` when None.

    Raises:
        UserError: the folder holds something, or the weights do not fit the base's own vocabulary.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UserError(what="the folder for the new base is not empty", where=str(folder), fix="choose another folder")
    state = grown_state(base.state(), pieces, rows=base.tokenizer().num_rows, where=str(base.folder))
    with new_folder(folder) as aside:
        (aside / "vocab.json").write_text(vocab, encoding="utf-8")
        for name in COPIED:
            if (base.folder / name).is_file():
                shutil.copyfile(base.folder / name, aside / name)
        write_weights(aside / "model.safetensors", state)
        if dvae is not None:
            shutil.copyfile(dvae, aside / "dvae.safetensors")
        # The DVAE of another base is not copied: that base is named.
        origin = base.as_origin(aside)
        inherited = {key: base.about[key] for key in INHERITED if key in base.about}
        inherited |= {"license": base.license} if base.license else {}
        rows = {ADDED_ROWS: spans_of([*(base.added_rows() or ()), *pieces])}
        facts = {
            "name": folder.name,
            "kind": GROWN,
            "speaks": base.can_speak,
            **inherited,
            "base": origin,
            **rows,
            **about,
        }
        write_about(aside, facts)
    return Base(folder)


def grown_state(state: State, pieces: Mapping[int, list[int]], *, rows: int, where: str = "") -> State:
    """The model's tensors with rows for new tokens, every old row as it was.

    Args:
        state: tensors under stock's names.
        pieces: for each new id, the old ids it is segmented into; holes among the old ids may be filled too.
        rows: rows that the old vocabulary needs.

    Raises:
        UserError: the weights have another number of rows, both named.
    """
    if state[EMBEDDING].shape[0] != rows:
        raise UserError(
            what=f"the weights have {state[EMBEDDING].shape[0]} text rows, the vocabulary needs {rows}",
            where=where,
            fix="use the vocab.json that belongs to these weights",
        )
    grown = dict(state)
    for name in (EMBEDDING, HEAD):
        grown[name] = with_rows(state[name], pieces)
    # A bias is a log-frequency: that of the pieces, made quiet.
    bias = state[HEAD_BIAS].float()
    longer = torch.cat([bias, bias.mean().expand(max([*pieces, len(bias) - 1]) + 1 - len(bias))])
    for new, old in pieces.items():
        longer[new] = (bias[old].mean() if old else bias.mean()) - QUIET_NATS
    grown[HEAD_BIAS] = longer.to(state[HEAD_BIAS].dtype)
    return grown


def with_rows(table: Tensor, pieces: Mapping[int, list[int]]) -> Tensor:
    """`table` [R, D] with a row for each new id: the mean of its pieces' rows, as long as rows are in the median.

    A mean of several rows is shorter than each of them, by the square root of their number where they are unrelated;
    a row that is too short is a token that is hardly there. Pieces that are empty take the mean of all rows.
    """
    known = table.float()
    length = known.norm(dim=1).median()
    longer = torch.cat([known, known.mean(0).expand(max([*pieces, len(known) - 1]) + 1 - len(known), -1)])
    for new, old in pieces.items():
        mean = known[old].mean(0) if old else known.mean(0)
        longer[new] = mean * (length / mean.norm().clamp(min=1e-8))
    return longer.to(table.dtype)
