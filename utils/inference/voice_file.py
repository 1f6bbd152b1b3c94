"""A LoRA voice as one small file: what it adds to the weights of its base, and its recording.

voice.safetensors holds A and B of each product (`utils.model.lora.low_rank_pairs`) in float16, the recording as the
bytes of a wav, and in its header under `voice` a JSON object: which base, rank, language and run it is of.

Shapes: r rank, I inputs, O outputs of a product, D model width.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from utils.bases.base import Base, where_it_lies
from utils.bases.catalog import has_weights
from utils.bases.find import find_base, weights_hash
from utils.errors import UserError
from utils.inference.adapters import Adapter
from utils.model.voices import ReferenceLimits, load_reference
from utils.model.weights import read_metadata, read_weights
from utils.project.advice import command
from utils.runs.layout import REFERENCE

FORMAT = 1
"""Newest layout that this version reads."""
DTYPE = torch.float16
"""Rounding to it moves the sum A^T B by 0.03 %; to bfloat16, by 0.23 %."""
FACTS = "voice"
"""In the header."""
DIGEST = "tensors_sha256"
"""Among the facts, except in files of older versions."""


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a voice's tensors in the order of their names: one byte that changed would only sound otherwise."""
    content = (tensors[name].flatten().view(torch.uint8).numpy().tobytes() for name in sorted(tensors))
    return hashlib.sha256(b"".join(content)).hexdigest()


def base_named_by(path: Path) -> str:
    """The name or the folder of the base that a voice's file belongs to; a published one may be still to download.

    Raises:
        UserError: it is no such file, or the base has no name, and its folder is not here.
    """
    origin = _facts(path)["base"]
    if not origin["folder"]:
        return str(origin["name"])
    folder = where_it_lies(Path(os.path.normpath(path.resolve().parent / origin["folder"])))
    if not has_weights(folder):
        raise UserError(
            what=f"the base of this voice, {origin['name']}, is not on this computer: there is none in {folder}",
            where=str(path),
            fix="copy the base there, or say where it is: --model FOLDER",
        )
    return str(folder)


def base_of_voice(path: Path) -> Base:
    """The base that a voice's file belongs to.

    Raises:
        UserError: it is no such file, or the base is not here.
    """
    return find_base(base_named_by(path))


def read_voice_file(path: Path, base: Base) -> tuple[Adapter, Tensor, str]:
    """A voice for a base.

    Returns:
        What it adds to the weights; its recording, [1, N] at 22 050 Hz; and its language's code, empty where it has
        none.

    Raises:
        UserError: it is no such file, it is damaged, or it belongs to another base.
    """
    facts = _facts(path)
    _require_base(path, facts, base)
    tensors = read_weights(path)
    if DIGEST in facts and facts[DIGEST] != digest(tensors):
        raise _damaged(path, "its content is not what was written")
    where, shape = str(path), base.gpt_shape()
    width, pairs = shape.width, list[tuple[Tensor, Tensor]]()
    sizes = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width)}
    sizes |= {"mlp.c_fc": (width, 4 * width), "mlp.c_proj": (4 * width, width)}
    for layer in (f"gpt.h.{number}.{name}" for number in range(shape.layers) for name in sizes):
        pair = [tensors[name] for side in "AB" if (name := f"{layer}.{side}") in tensors]
        wanted = [(facts["rank"], size) for size in sizes[layer.split(".", 3)[-1]]]
        if (found := [tuple(one.shape) for one in pair]) != wanted:
            raise _damaged(path, f"{layer} has sizes {found}; rank {facts['rank']} takes {wanted}")
        if not all(one.dtype is DTYPE and one.isfinite().all() for one in pair):
            raise _damaged(path, f"{layer} holds no finite numbers of 16 bits")
        # Copied: what was read is the mapped file, and a copy of another one over it would end this process.
        pairs.append((pair[0].clone(), pair[1].clone()))
    content = tensors.get(REFERENCE)
    if content is None or content.dtype is not torch.uint8:
        raise _damaged(path, "its recording is missing")
    return Adapter(tuple(pairs)), _recording(content, base, where), facts.get("language") or ""


def _facts(path: Path) -> dict[str, Any]:
    """The header: {format, name, base: {name, version, folder, sha256}, rank, text_rows, language, ...}."""
    if not path.is_file():
        raise UserError(what="there is no such voice file", where=str(path), fix="name a voice.safetensors")
    try:
        facts = json.loads(read_metadata(path)[FACTS])
        named = [*(facts["base"][key] for key in ("name", "folder", "sha256")), facts.get("language") or ""]
        is_whole = all(isinstance(one, str) for one in named)
        is_whole &= all(isinstance(facts[key], int) for key in ("rank", "format"))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise UserError(
            what="this is not a voice file: its header names no base",
            where=str(path),
            fix=f"write one of a LoRA run: {command('export', project='NAME', adapter=True)}",
        )
    if facts["format"] > FORMAT:
        what = f"this voice file has layout {facts['format']}; this version reads up to {FORMAT}"
        raise UserError(what=what, where=str(path), fix="update the studio")
    return dict(facts)


def _require_base(path: Path, facts: dict[str, Any], base: Base) -> None:
    origin = facts["base"]
    if (found := weights_hash(base)) == origin["sha256"]:
        return _require_vocabulary(path, facts, base)
    belongs = _described(origin["name"], origin.get("version"), origin["sha256"])
    speak = "" if origin["name"] == base.name else f"speak with {origin['name']}, or "
    raise UserError(
        what=f"this voice belongs to base {belongs}, "
        f"and this is {_described(base.name, base.about.get('version'), found)}",
        where=str(path),
        fix=f"{speak}train the voice again on {base.name}",
    )


def _require_vocabulary(path: Path, facts: dict[str, Any], base: Base) -> None:
    """Weights that are the same read the same ids, but vocab.json may have been replaced beside them."""
    own = vocabulary_of(base)
    if known := {key: facts[key] for key in own if facts.get(key, own[key]) != own[key]}:
        now = {key: own[key] for key in known}
        raise UserError(
            what=f"base {base.name} has another vocabulary than this voice was trained with: {now} instead of {known}",
            where=str(base.vocab),
            fix="restore the base's own vocab.json",
        )


def vocabulary_of(base: Base) -> dict[str, Any]:
    """What a voice's file says of the vocabulary that its base reads."""
    return {"text_rows": base.gpt_shape().text_rows, "languages": list(base.tokenizer().languages)}


def _described(name: str, version: object, digest: str) -> str:
    return f"{name}{f' version {version}' if version else ''} (weights {digest[:12]})"


def _recording(content: Tensor, base: Base, where: str) -> Tensor:
    with tempfile.TemporaryDirectory(prefix="voice-") as folder:
        wav = Path(folder, "reference.wav")
        wav.write_bytes(bytes(content.numpy()))
        try:
            return load_reference(wav, ReferenceLimits.of(base.config))
        except UserError as error:
            raise UserError(what=f"the voice's recording: {error.what}", where=where, fix=error.fix) from error


def _damaged(path: Path, why: str) -> UserError:
    return UserError(what=f"this voice file is damaged: {why}", where=str(path), fix="copy or export it again")
