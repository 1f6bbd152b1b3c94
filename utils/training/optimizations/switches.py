"""Every optimization switch: what this device can have of it, what it changes, and how a step shows that it did.

An entry of `BEHAVIORS` belongs to the entry of the same name in `utils.switches`.
"""

import logging
from collections import Counter
from dataclasses import replace

import torch

from utils.config import Checkpointing, CompileMode, TrainConfig
from utils.model.flash_attn import activate, use_flash_attn
from utils.model.gpt import XttsGpt
from utils.model.lora import add_lora, halve_frozen, has_lora, num_added_rows
from utils.model.packing import Layout
from utils.switches import SWITCHES
from utils.training.optimizations.compiler import compile_blocks, compiler_problem
from utils.training.optimizations.optimizer_switches import BEHAVIORS as OPTIMIZER_BEHAVIORS
from utils.training.optimizations.proof import EXPLICIT, PACKAGED, SLOW
from utils.training.optimizations.switch import MB, Behavior, Off, Report, Seen, Switches, Trace, state_of
from utils.training.optimizer.precision import AMPERE, DTYPES, choose_precision

log = logging.getLogger(__name__)

LOADING = ("num_workers", "prefetch_factor", "pin_memory")
"""Settings of the loader that may be chosen."""


def resolve(asked: TrainConfig, device: torch.device) -> Switches:
    """The switches of a run on its device.

    Raises:
        UserError: fp16 on a CPU.
    """
    effective, off = asked, {}
    for switch in SWITCHES:
        choose = BEHAVIORS[switch.name].resolve
        if choose is not None and switch.is_on(asked):
            value = choose(asked, device)
            if isinstance(value, Off):
                off[switch.name], value = value.reason, switch.off
            effective = replace(effective, **{switch.field: value})
    is_compiled = effective.compile != "off"
    layout = choose_layout(effective.sdpa, effective.mixed_precision, device, is_compiled=is_compiled)
    return Switches(asked=asked, effective=effective, layout=layout, off=off)


def report(trace: Trace) -> Report:
    """Each switch: what was asked for, what the trace shows, and why it is off if it is."""
    found = {}
    for switch in SWITCHES:
        behavior = BEHAVIORS[switch.name]
        asked = behavior.asked(trace) if behavior.asked else getattr(trace.switches.asked, switch.field)
        found[switch.name] = state_of(switch, asked, behavior.observe(trace), trace.switches.off.get(switch.name))
    return found


def choose_layout(sdpa: bool, precision: str, device: torch.device, *, is_compiled: bool) -> Layout:
    """One packed row where attention can keep clips apart cheaply, rows elsewhere.

    On CUDA that takes the variable-length kernel: compute capability 8.0 and half precision. A CPU goes clip by clip,
    which compiled code would have to be made anew for with each batch.
    """
    if not sdpa:
        return "rows"
    if device.type == "cuda":
        has_varlen = torch.cuda.get_device_capability(device) >= AMPERE and precision in ("bf16", "fp16")
        return "packed" if has_varlen else "rows"
    return "rows" if is_compiled else "packed"


def _blocks(part: int, whole: int, trace: Trace) -> str:
    """Passes in blocks: a step of several micro-batches passes through each more than once."""
    layers = trace.model.shape.layers
    return f"{layers * part // max(whole, 1)} of {layers} blocks"


def _checkpointing(asked: TrainConfig, device: torch.device) -> Checkpointing | Off:
    is_compiled = asked.compile != "off" and not isinstance(_compile_mode(asked, device), Off)
    if asked.gradient_checkpointing == "selective" and is_compiled:
        return Off(
            "compiled blocks choose by themselves what to recompute, and selective mode cannot look into them; "
            "use full, or compile off"
        )
    return asked.gradient_checkpointing


def _set_checkpointing(gpt: XttsGpt, effective: TrainConfig) -> None:
    gpt.options.checkpointing = effective.gradient_checkpointing


def _recomputed(trace: Trace) -> Seen:
    record = trace.record
    if not record.recomputed:
        return Seen(False, "no block was recomputed")
    saved = (record.block_bytes - record.kept_bytes) / MB
    share = f"{record.recomputed} of {record.forward_runs} block passes recomputed"
    conditioning = f"{record.conditioning_recomputed} of the conditioning encoder"
    kept = f"{record.kept_bytes / MB:.1f} instead of {record.block_bytes / MB:.1f} MB kept a block ({saved:.1f} saved)"
    summary = f"{_blocks(record.recomputed, record.forward_runs, trace)} recomputed"
    return Seen(True, f"{share} and {conditioning}; {kept}", summary)


def _sdpa(asked: TrainConfig, device: torch.device) -> bool | Off:
    return Off("attention explicit was requested, which is the reference") if asked.attention == "explicit" else True


def _set_attention(gpt: XttsGpt, effective: TrainConfig) -> None:
    gpt.options.sdpa = effective.sdpa


def _attention(trace: Trace) -> Seen:
    """On where every pass of every block took a fast kernel, and nothing anywhere a slow one."""
    record = trace.record
    slow = (set(record.kernels) | set(record.other_kernels)) & SLOW
    is_fast = bool(record.kernels) and not record.hidden and not slow
    shown = record.passes - record.hidden
    observed = f"{_counted(record.kernels)} in {shown} of {record.passes} block passes"
    if record.hidden and record.compiled:
        observed += "; compiled code does not show what it runs in the others"
    if record.other_kernels:
        observed += f"; conditioning {_counted(record.other_kernels)}"
    if is_fast and trace.switches.asked.dropout:
        observed += "; no dropout of attention weights, which these kernels do without"
    kernels = ", ".join(name for name, _ in record.kernels.most_common())
    return Seen(is_fast, observed, f"{kernels} in {_blocks(shown, record.passes, trace)}")


def _kernels(asked: TrainConfig, device: torch.device) -> str | Off:
    if asked.attention != "flash-attn":
        return asked.attention
    if not asked.sdpa:
        return Off("SDPA is off, which is explicit attention")
    if device.type != "cuda":
        return Off("flash-attn has kernels for CUDA GPUs only")
    return asked.attention


def choose_kernel(switches: Switches, gpt: XttsGpt, device: torch.device) -> None:
    """Give the model the flash-attn kernel that this GPU, data type and head size can have, if one may be used."""
    gpt.options.kernel = "torch"
    effective = switches.effective
    if effective.attention not in ("auto", "flash-attn") or not effective.sdpa or device.type != "cuda":
        activate("torch")
        if effective.attention == "auto" and "attention" not in switches.off:
            lacking = "flash-attn has kernels for CUDA GPUs only" if effective.sdpa else "SDPA is off"
            switches.off["attention"] = f"{lacking}; PyTorch's own kernels compute attention"
        return
    if switches.layout == "packed":
        dtype, channels = DTYPES[effective.mixed_precision], gpt.shape.width // gpt.shape.heads
        gpt.options.kernel, switches.without_flash_attn = use_flash_attn(device, dtype, channels)
    else:
        switches.without_flash_attn = "flash-attn takes half precision and compute capability 8.0 or more"
    if gpt.options.kernel == "torch":
        switches.off["attention"] = switches.without_flash_attn


def _kernel_source(trace: Trace) -> Seen:
    """On where the blocks ran what was requested; of auto, where they ran a flash-attn package's kernel."""
    kernels = set(trace.record.kernels)
    of_package = bool(kernels) and kernels <= PACKAGED
    is_on = {
        "auto": of_package,
        "flash-attn": of_package,
        "torch": bool(kernels) and not kernels & {*PACKAGED, EXPLICIT},
        "explicit": kernels == {EXPLICIT},
    }[trace.switches.asked.attention]
    observed = f"{_counted(trace.record.kernels)} in the blocks"
    if not of_package and trace.switches.without_flash_attn:
        observed += f"; {trace.switches.without_flash_attn}"
    return Seen(is_on, observed)


def _counted(kernels: Counter[str]) -> str:
    return ", ".join(f"{name} x{count}" for name, count in kernels.most_common()) or "no attention kernel was seen"


def _precision(asked: TrainConfig, device: torch.device) -> str | Off:
    precision = choose_precision(asked.mixed_precision, device)
    if precision != "fp32":
        return precision
    lacking = (
        "GPU has no matrix units for half precision" if device.type == "cuda" else "processor has no fast bf16 units"
    )
    return Off(f"this {lacking}: half precision would be slower than fp32")


def _products(trace: Trace) -> Seen:
    dtypes = trace.record.product_dtype, trace.record.stream_dtype
    products, stream = (str(dtype).removeprefix("torch.") for dtype in dtypes)
    scaler = "on" if trace.scaler else "off"
    observed = f"products {products}, block outputs {stream}, gradient scaler {scaler}"
    return Seen(dtypes[0] in (torch.bfloat16, torch.float16), observed, f"{products} matrix products")


def _compile_mode(asked: TrainConfig, device: torch.device) -> CompileMode | Off:
    if problem := compiler_problem(device):
        return Off(problem)
    if device.type == "cpu" and asked.compile == "reduce-overhead":
        return Off("reduce-overhead records CUDA graphs, which a CPU has none of; use default")
    return asked.compile


def _compile(gpt: XttsGpt, effective: TrainConfig) -> None:
    if effective.compile != "off":
        compile_blocks(gpt, effective.compile)


def _compiled(trace: Trace) -> Seen:
    record, switches = trace.record, trace.switches
    if "compile" in switches.off:
        # It may have failed after the step that was watched.
        return Seen(False, "the blocks run as they are written")
    observed = f"{record.compiled} of {record.passes} block passes ran compiled"
    observed += f"; {record.num_graphs} graphs compiled in this step"
    if record.num_skips:
        observed += f"; CUDA graphs skipped {record.num_skips} times"
    # Of max-autotune the graphs are only a part.
    lacks_graphs = record.num_skips > 0 and switches.effective.compile == "reduce-overhead"
    return Seen(0 < record.compiled == record.passes and not lacks_graphs, observed)


def _freeze(gpt: XttsGpt, effective: TrainConfig) -> None:
    if effective.freeze_conditioning:
        for part in (gpt.conditioning_encoder, gpt.conditioning_perceiver):
            part.requires_grad_(False)


def _frozen(trace: Trace) -> Seen:
    parts = (trace.model.conditioning_encoder, trace.model.conditioning_perceiver)
    learning = sum(p.numel() for part in parts for p in part.parameters() if p.requires_grad)
    return Seen(learning == 0, f"{learning / 1e6:.2f} million parameters of the conditioning encoder learn")


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
    if rows := num_added_rows(trace.model):
        observed += f", {rows:,} added text rows among them"
    if trace.model.added_rows is None:
        observed += "; text rows that were added to the base's vocabulary do not: its about.json does not name them"
    return Seen(True, observed)


def _fraction(asked: TrainConfig, device: torch.device) -> float | Off | None:
    return asked.cuda_memory_fraction if device.type == "cuda" else Off("there is no GPU memory to limit")


def _limit_memory(effective: TrainConfig, device: torch.device) -> None:
    if device.type == "cuda":
        # Of the whole process: a limit that an earlier run set must not stay.
        torch.cuda.set_per_process_memory_fraction(float(effective.cuda_memory_fraction or 1.0), _index(device))


def _limited(trace: Trace) -> Seen:
    if trace.switches.effective.cuda_memory_fraction is None:
        return Seen(False, "no limit")
    share = torch.cuda.get_per_process_memory_fraction(_index(trace.device))
    return Seen(True, f"{share:.0%} of {trace.device}")


def _index(device: torch.device) -> int:
    """Number of a CUDA device; accelerate names the only one without."""
    return torch.cuda.current_device() if device.index is None else device.index


def _has_tf32(device: torch.device) -> bool:
    """Whether there are units for it, which are then to be used."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE


def _tf32(trace: Trace) -> Seen:
    if trace.device.type != "cuda":
        return Seen(False, "no CUDA device")
    matmul = torch.backends.cuda.matmul.fp32_precision
    convolution = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    autotune = "on" if torch.backends.cudnn.benchmark else "off"
    observed = f"fp32 products {matmul}, convolutions {convolution}, cuDNN autotune {autotune}"
    return Seen(_has_tf32(trace.device) and matmul == "tf32", observed)


def _asked_of_loader(trace: Trace) -> str:
    chosen = {name: getattr(trace.switches.asked, name) for name in LOADING}
    return ", ".join(f"{name} {value}" for name, value in chosen.items() if value is not None) or "auto"


def _loader(trace: Trace) -> Seen:
    """On where the loader has all that was asked for."""
    asked, loader = trace.switches.asked, trace.loader
    is_on = all(getattr(asked, name) in (None, getattr(loader, name, None)) for name in LOADING)
    return Seen(is_on, ", ".join(f"{name} {getattr(loader, name, None)}" for name in (*LOADING, "persistent_workers")))


BEHAVIORS = {
    "gradient_checkpointing": Behavior(resolve=_checkpointing, apply=_set_checkpointing, observe=_recomputed),
    "sdpa": Behavior(resolve=_sdpa, apply=_set_attention, observe=_attention),
    # The kernel is chosen with the model on its device: see `choose_kernel`.
    "attention": Behavior(
        resolve=_kernels,
        observe=_kernel_source,
        only_ours="only this project's own GPT lays clips out as flash-attn's variable-length kernels take them",
    ),
    # The trainer computes in it.
    "mixed_precision": Behavior(resolve=_precision, observe=_products),
    "compile": Behavior(
        resolve=_compile_mode,
        apply=_compile,
        observe=_compiled,
        only_ours="only this project's own GPT is compiled by it; call torch.compile(model) yourself",
    ),
    "freeze_conditioning": Behavior(
        apply=_freeze,
        observe=_frozen,
        only_ours="only this project's own GPT is known to have such an encoder; use requires_grad_(False)",
    ),
    "lora": Behavior(
        apply=_add_lora,
        observe=_lora,
        only_ours="only this project's own GPT takes these additions; use peft.get_peft_model for other models",
    ),
    **OPTIMIZER_BEHAVIORS,
    "cuda_memory_fraction": Behavior(resolve=_fraction, set_up=_limit_memory, observe=_limited),
    "tf32": Behavior(asked=lambda trace: _has_tf32(trace.device), observe=_tf32),
    "loader": Behavior(asked=_asked_of_loader, observe=_loader),
}
