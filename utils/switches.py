"""The training optimizations as everybody names them: one entry each for settings, command line, page, log and docs.

What a switch does to a run and how a step proves it stands in `utils.training.switches.optimizer`; this half loads no
torch. A new switch is a field of `utils.config.TrainConfig`, an entry here and there, and its row in
docs/training-optimizations.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from utils.options import LORA_RANK

FLASH_ATTN = ("flash_attn", "flash_attn_interface")
"""Modules of the flash-attn packages."""


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One optimization in words."""

    field: str
    """Of `TrainConfig`; empty for what is always on where it can be."""
    name: str = ""
    """Key in the `optimizations` event; the field's name when not given."""
    label: str
    """On the page and in the documents."""
    short: str = ""
    """In the lines of a run; none is written without it."""
    help: str = ""
    """On the page; the field's docstring when not given."""
    off: Any = False
    """The field's value that leaves it off."""
    on: Any = True
    """The value of a ticked checkbox."""
    place: Literal["checkbox", "more", ""] = ""
    """On the page: a checkbox with a badge, which the log mentions even when off; a field behind the fold below these,
    which a recommendation sets; or among all other settings."""
    row: Callable[[Any], str] | None = None
    """Names its value in a row of preflight, which chooses it; preflight leaves it as given when there is none."""
    is_exact: bool = True
    """Whether it trains all weights as plain AdamW does; others are recommended only where nothing else fits."""
    fault: tuple[Callable[[Any], bool], str] | None = None
    """Whether its value in a `TrainConfig` cannot be, alone or beside others, and the words for it, with the fix."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.field)

    def is_on(self, config: Any) -> bool:
        """Whether a `TrainConfig` asks for it."""
        return bool(getattr(config, self.field) != self.off)

    def problem(self, config: Any) -> str | None:
        """What is wrong with its value in a `TrainConfig`."""
        return self.fault[1].format(**vars(config)) if self.fault and self.fault[0](config) else None


SWITCHES = (
    Switch(
        field="gradient_checkpointing",
        label="Gradient Checkpointing",
        short="gradient checkpointing",
        help="Computes activations twice instead of keeping them: less memory, more time.",
        off="none",
        on="full",
        place="checkbox",
        row=lambda mode: f"{mode} checkpointing",
    ),
    Switch(
        field="sdpa",
        label="Fast Attention (SDPA)",
        short="SDPA",
        help="Attention without padding, by the device's fast kernel.",
        place="checkbox",
        row=lambda _: "SDPA",
    ),
    Switch(
        field="attention",
        label="Attention kernels",
        off="auto",
        on="torch",
        fault=(
            lambda config: config.attention == "flash-attn" and not any(map(find_spec, FLASH_ATTN)),
            "attention flash-attn needs the flash-attn package, which is not installed; run pip install "
            "--no-build-isolation -r requirements-flash.txt (it is compiled on this machine, see "
            "docs/training-optimizations.md), or use auto",
        ),
    ),
    Switch(
        field="mixed_precision",
        label="Mixed Precision (FP16/BF16)",
        short="mixed precision",
        help="Half-precision matrix products where the device is fast at them; weights stay in 32 bits.",
        off="fp32",
        on="auto",
        place="checkbox",
        row=lambda _: "mixed precision",
        fault=(
            lambda config: config.mixed_precision == "fp16" and config.device == "cpu",
            "mixed_precision fp16 needs a CUDA GPU; use bf16, fp32 or auto on a CPU",
        ),
    ),
    Switch(
        field="compile",
        label="Compile",
        short="torch.compile",
        help="Compiles the model's blocks: a run begins later, and its steps take less time or more.",
        off="off",
        on="default",
        place="more",
        row=lambda mode: "compile" if mode == "default" else f"compile {mode}",
        fault=(
            lambda config: config.reading_weight and config.compile != "off",
            "reading_weight watches attention, which compiled blocks hide; give compile off",
        ),
    ),
    Switch(
        field="eight_bit_optimizer",
        label="8-bit Adam",
        short="8-bit AdamW",
        place="more",
        row=lambda _: "8-bit AdamW",
        is_exact=False,
    ),
    Switch(
        field="paged_optimizer",
        label="Paged AdamW",
        short="paged AdamW",
        place="more",
    ),
    Switch(
        field="freeze_conditioning",
        label="Frozen conditioning encoder",
        short="frozen conditioning encoder",
        place="more",
    ),
    Switch(
        field="lora_rank",
        name="lora",
        label="LoRA rank",
        short="LoRA",
        help="0 trains all weights; 8 to 64 trains small additions only, in less memory.",
        off=0,
        on=LORA_RANK,
        place="more",
        row=lambda _: "LoRA",
        is_exact=False,
        fault=(lambda config: config.lora_rank < 0, "lora_rank is {lora_rank}; use 0 or more"),
    ),
    Switch(
        field="cuda_memory_fraction",
        label="Share of the GPU's memory",
        short="CUDA memory limit",
        off=None,
        fault=(
            lambda config: config.cuda_memory_fraction is not None and not 0 < config.cuda_memory_fraction <= 1,
            "cuda_memory_fraction is {cuda_memory_fraction}; use a share above 0, up to 1",
        ),
    ),
    Switch(
        field="",
        name="tf32",
        label="TF32 matrix products",
        short="TF32",
    ),
    Switch(field="", name="loader", label="Data loading"),
)


def missed(states: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of the switches of an `optimizations` event that were requested and are off."""
    defaults = {switch.name: switch.off for switch in SWITCHES}
    return [name for name, state in states.items() if state["reason"] and state["asked"] != defaults[name]]


def proof_lines(switches: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for each switch that was seen to work, or that is off although it was requested.

    Args:
        switches: of an `optimizations` event; a switch reads on only after a step showed it.
    """
    lines = []
    for switch in (switch for switch in SWITCHES if switch.short):
        state = switches.get(switch.name, {})
        if state.get("state") == "on":
            lines.append(f"{switch.short} enabled: {state.get('summary') or state.get('observed')}")
        elif state.get("reason"):
            lines.append(f"{switch.short} off: {state['reason']}")
        elif state and switch.place == "checkbox":
            lines.append(f"{switch.short} off: not requested")
    return lines


CHECKBOXES = tuple(switch for switch in SWITCHES if switch.place == "checkbox")
FAST = {"sdpa": True, "mixed_precision": "auto"}
"""What costs nothing: most combinations that preflight measures share it."""
MEASURED = tuple(sorted((switch for switch in SWITCHES if switch.row), key=lambda switch: switch.field not in FAST))
"""What preflight chooses, in the order in which it names them."""
