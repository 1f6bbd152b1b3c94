"""Settings as other trainers spell them, such as Hugging Face's `fp16`, translated into ours."""

from collections.abc import Mapping, Sequence
from typing import Any

from utils.errors import UserError

RENAMED = {
    "dataloader_num_workers": "num_workers",
    "dataloader_prefetch_factor": "prefetch_factor",
    "dataloader_pin_memory": "pin_memory",
    "scheduler": "schedule",
    "lr_scheduler_type": "schedule",
    "per_device_train_batch_size": "batch_size",
    "per_device_eval_batch_size": "eval_batch_size",
    "gradient_accumulation_steps": "grad_accumulation",
    "num_train_epochs": "num_epochs",
    "max_grad_norm": "grad_clip_norm",
    "save_steps": "checkpoint_every",
    "save_step": "checkpoint_every",
    "model_path": "base",
    "custom_model": "base",
    "grad_acumm": "grad_accumulation",
    "torch_compile_mode": "compile",
    "dtype": "mixed_precision",
    "torch_dtype": "mixed_precision",
}
"""Other name -> ours; the value is the same."""
SWITCHES = {
    **dict.fromkeys(("gradient_checkpointing", "enable_grad_checkpoint"), ("gradient_checkpointing", "full", "none")),
    **dict.fromkeys(("use_compile", "torch_compile"), ("compile", "default", "off")),
    "enable_mixed_precision": ("mixed_precision", "auto", "fp32"),
}
"""On or off elsewhere, where our setting has several ways: our name, on, off."""
FLAGS = ("fp16", "bf16", *SWITCHES)
"""Alone on a command line they mean on."""
_VALUES = {
    # Ours all warm up, over `warmup_steps`.
    "schedule": {"constant_with_warmup": "constant"},
    "mixed_precision": {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"},
}
"""By setting: other value -> ours."""
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def translate(values: Mapping[str, Any], *, where: str) -> tuple[dict[str, Any], list[str]]:
    """Our names and values for a caller's settings.

    Args:
        values: settings by any name, those given only.
        where: what took them, for the message.

    Returns:
        The settings by our names, and a note for each that has another name or value there.

    Raises:
        UserError: two names of one setting contradict each other.
    """
    found: dict[str, tuple[Any, str]] = {}
    for name, value in values.items():
        for ours, meant in _meaning(name, value, where):
            before, other = found.setdefault(ours, (meant, name))
            if str(before) != str(meant):
                # On agrees with each way to be on, which says more.
                both = (before, other), (meant, name)
                ways = [way for way in both if SWITCHES.get(way[1], ("", None))[1] != way[0]]
                if len(ways) != 1 or ways[0][0] in ("none", "off", "fp32"):
                    raise contradiction(f"{other} ({values[other]})", f"{name} ({value})", where)
                found[ours] = ways[0]
    precision = found.get("mixed_precision", ("", ""))[0]
    if precision in ("fp16", "bf16") and _BOOLEANS.get(str(values.get(precision)).lower()) is False:
        raise contradiction(f"{precision} (False)", f"mixed_precision ({precision})", where)
    notes = [
        f"{ours} {meant}: given as {name} {values[name]}"
        for ours, (meant, name) in found.items()
        if (ours, meant) != (name, values[name])
    ]
    return {name: value for name, (value, _) in found.items()}, notes


def _meaning(name: str, value: Any, where: str) -> list[tuple[str, Any]]:
    """One setting in ours; nothing where it only says that something is off that is off anyway."""
    if name in FLAGS and str(value).lower() in _BOOLEANS:
        # Configuration files and the environment give words.
        value = _BOOLEANS[str(value).lower()]
        if name in SWITCHES:
            ours, on, off = SWITCHES[name]
            return [(ours, on if value else off)]
        return [("mixed_precision", name)] if value else []
    if name in FLAGS and name != "gradient_checkpointing":
        raise UserError(what=f"{name} is {value!r}", where=where, fix="use True or False")
    ours = RENAMED.get(name, name)
    return [(ours, _VALUES.get(ours, {}).get(value, value) if isinstance(value, str) else value)]


def contradiction(first: str, second: str, where: str) -> UserError:
    """The error for a setting that was given twice, each time by a name with its value in brackets."""
    return UserError(what=f"given twice, differently: {first} and {second}", where=where, fix="give one of them")


def translate_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command line with our flags in place of other trainers', and a note for each of those.

    `--fp16`, `--fp16 True` and `--fp16=true` are the same; so are `-` and `_`.

    Raises:
        UserError: two flags contradict each other, or an on-or-off flag has another value.
    """
    kept: list[str] = []
    given: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for flag, value, written in _flags(words):
        name = flag.removeprefix("--").replace("-", "_")
        if name in FLAGS and (value is None or value.lower() in _BOOLEANS):
            meant = value is None or _BOOLEANS[value.lower()]
            if given.setdefault(name, meant) != meant:
                raise contradiction(f"{name} ({given[name]})", f"{name} ({meant})", "command line")
        elif (switch := name.removeprefix("no_")) in FLAGS and value is None:
            if given.setdefault(switch, False):
                raise contradiction(f"{switch} (True)", f"{switch} (False)", "command line")
        elif name in RENAMED:
            if value is None:
                raise UserError(what=f"{flag} has no value", where="command line", fix=f"write {flag} VALUE")
            given[name] = value.capitalize() if value.lower() in ("true", "false") else value
        else:
            own[name] = value
            kept += written
    if twice := sorted(set(own) & set(given)):
        raise contradiction(f"{twice[0]} ({own[twice[0]]})", f"{twice[0]} ({given[twice[0]]})", "command line")
    ours, notes = translate({**own, **given}, where="command line")
    new = {name: value for name, value in ours.items() if name not in own}
    if (wanted := _VALUES["schedule"].get(own.get("schedule") or "")) is not None:
        kept = [word.replace(own["schedule"], wanted) if word.endswith(own["schedule"]) else word for word in kept]
    return kept + [word for name, value in new.items() for word in (f"--{name.replace('_', '-')}", str(value))], notes


def _flags(words: Sequence[str]) -> list[tuple[str, str | None, list[str]]]:
    """Each flag, its value if it has one, and both as they were written; a word of no flag stands alone."""
    found: list[tuple[str, str | None, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            found.append((flag, value if equals else None, [word]))
        elif found and found[-1][0].startswith("--") and found[-1][1] is None:
            found[-1] = (found[-1][0], word, [*found[-1][2], word])
        else:
            found.append((word, None, [word]))
    return found
