"""train_gpt(): fine-tune XTTS from Python, with the argument names people already use."""

import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from utils.callbacks import Progresses
from utils.config import TrainConfig
from utils.console import say
from utils.errors import raise_problems
from utils.runs.narration import Narration
from utils.spellings import translate
from utils.training.child import train_in_child

log = logging.getLogger(__name__)

DISTRIBUTED = ("RANK", "WORLD_SIZE")
"""Set by torchrun and `accelerate launch`: then this process is one of those that train."""
INSTEAD = {"project": "output_path", "output": "output_path", "sdpa": "enable_sdpa"}
"""Settings that arguments of `train_gpt` give."""


class TrainedModel(NamedTuple):
    """Paths of what a run left behind; each names an existing file or folder."""

    speaker_path: str
    """Reference voices: speakers_xtts.pth."""
    config: str
    """Model settings: config.json."""
    checkpoint: str
    """GPT weights of the best evaluation: model.safetensors."""
    vocab: str
    """Tokenizer: vocab.json."""
    exp_path: str
    """The run's folder."""
    ref_audio: str
    """A recording of the trained voice."""


def train_gpt(
    custom_model: str | Path | None,
    version: str,
    language: str,
    num_epochs: int | None,
    batch_size: int,
    grad_acumm: int,
    train_csv: str | Path,
    eval_csv: str | Path,
    output_path: str | Path,
    max_audio_length: int = 255_995,
    enable_grad_checkpoint: bool | None = None,
    enable_sdpa: bool = True,
    enable_mixed_precision: bool | None = None,
    use_amharic_g2p: bool = False,
    *,
    use_compile: bool | None = None,
    resume: str | Path | None = None,
    allow_changes: bool = False,
    patience: int = 0,
    max_hours: float | None = None,
    accept_license: bool = False,
    in_process: bool = False,
    progress: Progresses | None = None,
    **settings: Any,
) -> TrainedModel:
    """Fine-tune the GPT of an XTTS base.

    Training runs in a child process, as fast as the command line, and needs no main guard. What it does is printed, or
    logged where logging is set up (silence it with `logging.getLogger("utils").setLevel("WARNING")`). Ctrl-C, or a
    notebook's stop button, finishes the step and saves; a second one does not wait. When this process dies, the child
    finishes its step, saves and ends.

    Args:
        custom_model: a model to start from: its folder, such as an earlier run's ready/, or its weight file in that
            folder; None or "" takes `version`.
        version: base model when there is no custom model: starter, tiny, v2.0.2, v2.0.3 or main; of a custom model,
            where the parts come from that its folder lacks, such as the DVAE.
        language: code of the language spoken: en, de, zh-cn, ...
        num_epochs: passes over the training clips; None takes the base's default.
        batch_size: clips in one forward pass.
        grad_acumm: forward passes summed into one optimizer step.
        train_csv: training clips, `audio_file|text|speaker_name`.
        eval_csv: evaluation clips, likewise.
        output_path: the project's folder; the run goes to <output_path>/runs/<id>/, codes to
            <output_path>/dataset/codes/. Nothing that is there already is changed.
        max_audio_length: longest clip, in samples at 22 050 Hz; 255 995 is 11.6 s.
        enable_grad_checkpoint: recompute activations in the backward pass: less memory, more time. This, half precision
            and compilation are off when not given; False contradicts a setting that puts them on.
        enable_sdpa: fused attention kernels; False computes softmax attention step by step, as the reference.
        enable_mixed_precision: matrix products in bf16 or fp16, whichever the device has units for; fp32 if neither.
        use_amharic_g2p: train on the Latin form of Amharic; the exported model speaks through it too.
        use_compile: compile the repeated blocks with torch.compile; `compile` names other ways.
        resume: resume a run in <output_path>/runs/, exactly where it was: "last" or "best" of the newest, a run's
            folder or name, or the folder of a checkpoint. Leave the other settings as they were; num_epochs may be
            higher.
        allow_changes: let the resumed run take other settings or clips than it had, instead of refusing them by name.
        patience: stop early after this many evaluations in a row without a lower loss; 0 trains all epochs.
        max_hours: save and stop after this many hours; the run can be resumed.
        accept_license: agree to the license of a published base that is not on this computer yet; it is downloaded
            first. COQUI_TOS_AGREED=1 in the environment agrees as well.
        in_process: train in this process instead, as it is always done under torchrun and `accelerate launch`.
        progress: functions that are called, from this thread, instead of the lines they stand for.
        settings: any other field of `utils.config.TrainConfig`: learning_rate, schedule, warmup_steps, seed,
            eval_batch_size, num_workers, weight_decay, grad_clip_norm, max_text_length, dropout, device,
            mixed_precision (instead of enable_mixed_precision), checkpoint_every, checkpoint_minutes,
            keep_checkpoints, sample_text, ...; also as Hugging Face's trainer names them: fp16, bf16,
            gradient_checkpointing, dataloader_num_workers, dataloader_prefetch_factor, scheduler,
            gradient_accumulation_steps (where grad_acumm is 1), model_path (where custom_model is empty), ...

    Returns:
        (speaker_path, config, checkpoint, vocab, exp_path, ref_audio).

    Raises:
        UserError: any fault of settings, base or data, before training starts; or a full disk.
        KeyboardInterrupt: after Ctrl-C, when the run is saved.
        RuntimeError: another fault of the process that trains, with its traceback.
    """
    flags = {
        "enable_grad_checkpoint": enable_grad_checkpoint,
        "enable_mixed_precision": enable_mixed_precision,
        "use_compile": use_compile,
    }
    paths = {"train_csv": train_csv, "eval_csv": eval_csv, "output_path": output_path}
    raise_problems(
        [f"{name} is {value!r}; use True or False" for name, value in flags.items() if value not in (0, 1, None)]
        + [f"{name} is {value!r}; use a path" for name, value in paths.items() if not isinstance(value, str | Path)]
        + [f"{name} is {settings[name]!r}; use {instead}" for name, instead in INSTEAD.items() if name in settings],
        where="train_gpt",
    )
    # One accumulated pass and no custom model leave the setting open.
    own = {
        "custom_model": custom_model and str(custom_model),
        "grad_acumm": grad_acumm if grad_acumm != 1 else None,
        "num_epochs": num_epochs,
        "batch_size": batch_size,
        **flags,
    }
    given = {name: value for name, value in own.items() if value not in (None, "")}
    named, _ = translate({**given, **settings}, where="train_gpt")
    _, notes = translate(settings, where="train_gpt")
    folder, base = Path(output_path).expanduser().absolute(), named.get("base", version)
    if custom_model:
        # Imported late: it loads torch.
        from utils.bases.custom import whole_model

        base, missing = whole_model(base, version, folder, accept_license=accept_license)
        if missing:
            say(log, f"{custom_model} lacks {', '.join(missing)}: taken from {version}")
    named |= {
        "project": folder.name,
        "output": folder.parent,
        "base": base,
        "language": language,
        "use_amharic_g2p": use_amharic_g2p,
        "train_csv": Path(train_csv).absolute(),
        "eval_csv": Path(eval_csv).absolute(),
        "max_audio_length": max_audio_length,
        "sdpa": enable_sdpa,
        "resume": resume,
        "allow_changes": allow_changes,
        "patience": patience,
        "max_hours": max_hours,
    }
    config = TrainConfig.from_values(named, where="train_gpt").validate(where="train_gpt")
    for note in notes:
        say(log, note)
    reporting = Narration(partial(say, log)).joined(progress)
    if in_process or any(name in os.environ for name in DISTRIBUTED):
        # Imported late: a process that has a child do it needs no torch.
        from utils.training.worker import train

        result = train(config, accept_license=accept_license, progress=reporting)
    else:
        result = train_in_child(config, accept_license=accept_license, progress=reporting)
    if result["stop_signal"] is None:
        say(log, f"run folder: {result['exp_path']}")
    else:
        say(log, f'stopped and saved; to continue, call train_gpt likewise with resume="{result["exp_path"]}"')
    if result["stop_signal"] == signal.SIGINT:
        raise KeyboardInterrupt
    return TrainedModel(**{name: result[name] for name in TrainedModel._fields})
