"""Texts about settings: a name for each, and a help for each that the page has a field for."""

import re
from collections.abc import Iterable

from utils.options import SHAPES
from utils.switches import SWITCHES
from webui.text.catalog import _, engine_text

LABELS = {
    **{key: engine_text(switch.label) for switch in SWITCHES for key in (switch.name, switch.field) if key},
    "num_epochs": _("Epochs"),
    "attention": _("Attention kernels"),
    "batch_size": _("Batch size"),
    "batch_tokens": _("Batch size in tokens"),
    "grad_accumulation": _("Gradient accumulation"),
    "learning_rate": _("Learning rate"),
    "max_audio_length": _("Maximum clip length (seconds)"),
    "max_text_length": _("Maximum transcript length (tokens)"),
    "schedule": _("LR schedule"),
    "seed": _("Seed"),
    "eval_batch_size": _("Evaluation batch size"),
    "warmup_steps": _("Warmup steps"),
    "weight_decay": _("Weight decay"),
    "grad_clip_norm": _("Gradient clipping (max norm)"),
    "processes": _("Processes"),
    "max_restarts": _("Restarts"),
    "threads": _("CPU threads"),
    "num_workers": _("Data loader workers"),
    "checkpoint_every": _("Checkpoint every (steps)"),
    "patience": _("Early stopping patience (evaluations)"),
    "sample_text": _("Sample sentences (separated by |)"),
    "eval_fraction": _("Evaluation split (fraction)"),
    "device": _("Device"),
    "loudness": _("Loudness (LUFS)"),
    "trim": _("Trim silence"),
    "clean_subtitles": _("Clean subtitles"),
    "keep_before": _("Silence kept at the start (seconds)"),
    "keep_after": _("Silence kept at the end (seconds)"),
    "remove_dc": _("Remove DC offset"),
    "highpass": _("High-pass filter (Hz)"),
    "denoise": _("Remove noise"),
    "channel": _("Channel of stereo recordings"),
    "quality": _("Measure audio quality"),
    "check_speakers": _("Detect other voices"),
    "check_quality": _("Predict perceived quality (DNSMOS)"),
    "drop_flagged": _("Drop flagged clips"),
    "workers": _("Worker processes"),
    "dropout": _("Dropout"),
    "conditioning": _("Conditioning clip"),
    "checkpoint_minutes": _("Checkpoint every (minutes)"),
    "keep_checkpoints": _("Older checkpoints to keep"),
    "keep_languages": _("Projects of other languages to keep"),
    "max_hours": _("Time limit (hours)"),
    "best_by": _("Best checkpoint by"),
    "prefetch_factor": _("Prefetch factor"),
    "pin_memory": _("Pinned memory"),
    "max_mel_length": _("Fixed batch length"),
    "use_amharic_g2p": _("Convert Amharic to Latin script"),
    "encoding": _("Text encoding"),
    "shortest": _("Minimum length of cut clips (seconds)"),
    "longest": _("Maximum length of cut clips (seconds)"),
    "padding": _("Silence around cut clips (seconds)"),
    "transcriber": _("Transcribe with Whisper"),
    "transcriber_device": _("Whisper device"),
    "compute_type": _("Precision"),
    "beam_size": _("Beam size"),
    "check_transcripts": _("Check transcripts with Whisper"),
    "max_cer": _("Allowed mismatch"),
    "detect_language": _("Detect the language with Whisper"),
    "new_tokens": _("New tokens"),
    "num_sentences": _("Sentences"),
    "start_s": _("From (s)"),
    "end_s": _("To (s)"),
    "at_s": _("Split at (s)"),
    "temperature": _("Temperature"),
    "top_k": _("Top-k"),
    "top_p": _("Top-p"),
    "repetition_penalty": _("Repetition penalty"),
    "speed": _("Speed"),
    "split": _("Sentence grouping"),
    "language": _("Language"),
    "reading_weight": _("Guided attention loss"),
}
HELPS = {
    **{helped.field: engine_text(helped.help) for helped in SWITCHES if helped.help},
    "num_epochs": _("How often training passes over all clips."),
    "batch_size": _("Clips that are trained on at once; more need more memory."),
    "grad_accumulation": _("Batches that one step learns from, in the memory of one."),
    "learning_rate": _("Too high breaks the voice; too low keeps that of the base."),
    "max_audio_length": _("Longer clips are dropped; fewer seconds need less memory."),
    "schedule": _("How the learning rate decays after warmup."),
    "seed": _("The same seed and settings give the same result."),
    "warmup_steps": _("Optimizer steps over which the learning rate rises from 0."),
    "processes": _("Processes that train together, each on a GPU of its own. 0: one for each GPU."),
    "eight_bit_optimizer": _("Keeps AdamW's moments in 8 bits: less GPU memory, with the package bitsandbytes."),
    "patience": _("Stops after this many evaluations without improvement; 0 trains all epochs."),
    "max_hours": _("Training saves and stops after this time, and can be resumed."),
    "best_by": _("Speech compares how the checkpoints speak held-out texts, in up to a tenth of the time."),
    "sample_text": _("Generated at each evaluation, so that you can listen to the progress."),
    "conditioning": _("The clip that provides the voice."),
    "transcriber": _("For recordings without a transcript: a size, a model's name or a folder."),
    "check_transcripts": _("Flags clips whose transcript differs from what Whisper recognizes."),
    "eval_fraction": _("Fraction of the clips held out to measure the evaluation loss; at least one clip."),
    "denoise": _("Removes steady noise with RNNoise (package pyrnnoise); listen before you train."),
    "language": _("Automatic: the project's language."),
    "temperature": _("Sampling temperature; 0 is greedy decoding."),
    "top_k": _("Samples from this many of the most likely codes; 0 disables the limit."),
    "top_p": _("Samples from the most likely codes whose probabilities add up to this value."),
    "repetition_penalty": _("Penalty for codes that were already generated; 1 disables it."),
    "speed": _("Speaking rate; 2 is twice as fast."),
}
CHOICES = {
    "auto": _("automatic"),
    "off": _("off"),
    **{str(name): engine_text(shape[0]) for name, shape in SHAPES.items()},
    "none": _("none"),
    "selective": _("selective"),
    "full": _("full"),
    "fp32": "FP32",
    "bf16": "BF16",
    "fp16": "FP16",
    "default": _("on"),
    "reduce-overhead": _("on, with CUDA graphs"),
    "max-autotune": _("on, with kernel autotuning"),
    "own": _("same clip"),
    "own_masked": _("same clip, part not trained"),
    "other": _("another clip of the speaker"),
    "speech": _("speech"),
    "loss": _("evaluation loss"),
    "True": _("yes"),
    "False": _("no"),
}
OPEN = _("automatic")
OFF_WHEN_EMPTY = ("encoding", "transcriber", "loudness", "highpass", "max_hours", "max_mel_length")
"""Settings that do nothing when they are left empty; the other empty ones are chosen by the base or the machine."""


def label(name: str) -> str:
    """A setting's name for people."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


def when_empty(name: str) -> str:
    """What a setting is when its field is empty."""
    return _("off") if name in OFF_WHEN_EMPTY else OPEN


def choice(value: str) -> str:
    """A value that can be chosen, in words."""
    return CHOICES.get(value, value)


def not_whole(name: str, value: object) -> str:
    """A field that holds a fraction where only whole numbers can be."""
    return _("{setting} is {value}; use a whole number", setting=label(name), value=value)


def not_a_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """A field that holds something that is not offered."""
    return _(
        "{setting} is {value}; use {choices}", setting=label(name), value=repr(value), choices=_(" or ").join(choices)
    )


def not_a_number(name: str, value: object, *, whole: bool) -> str:
    """A field that holds no number."""
    if whole:
        return not_whole(name, repr(value))
    return _("{setting} is {value}; use a number such as 5e-6 or 0.1", setting=label(name), value=repr(value))


COMMAND = r"""python -m (?:'[^']*'|"[^"]*"|[^;\n)'"])*"""
"""A command line, whose flags are no settings of the form; paths in it may be quoted."""
FLAG = re.compile(rf"{COMMAND}|(?<!\S)--([a-z]+(?:-[a-z]+)*)")


def on_page(words: object) -> str:
    """A message of the engine, which names settings as the command line does, with the page's own names.

    Whole commands stay as they are: they are for a shell.
    """

    def labeled(flag: re.Match[str]) -> str:
        label = LABELS.get(flag[1].replace("-", "_")) if flag[1] else None
        return f"“{label}”" if label else flag[0]

    return FLAG.sub(labeled, str(words))
