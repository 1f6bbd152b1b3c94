"""Texts about settings; a setting without a help here shows its own docstring."""

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
    "learning_rate": _("Peak value, such as 5e-6. Empty: the base's default, with LoRA up to ten times that."),
    "num_epochs": _("Passes over the training clips. Empty: the base's default."),
    "batch_size": _("Clips per forward pass. A larger batch is faster on a GPU and needs more memory."),
    "batch_tokens": _(
        "Limits a batch by its positions (text tokens and audio codes with padding), not by its clips. 0: off."
    ),
    "grad_accumulation": _("Batches per optimizer step. Increases the effective batch size in the same memory."),
    "max_audio_length": _("Longer clips are dropped. Empty: the base's limit (XTTS v2: 11.6 s)."),
    "max_text_length": _("Longer transcripts are dropped. Empty: the base's limit (XTTS v2: 200 tokens)."),
    "schedule": _("How the learning rate decays after warmup."),
    "seed": _("The same seed and settings give the same result."),
    "eval_batch_size": _("Clips per forward pass during evaluation."),
    "warmup_steps": _("Optimizer steps over which the learning rate rises from 0."),
    "weight_decay": _("Weight decay of AdamW. XTTS uses 0.01."),
    "grad_clip_norm": _("Maximum norm of the gradients."),
    "processes": _("Processes that train together, each on a GPU of its own. 0: one for each GPU."),
    "max_restarts": _("Several processes start again from the newest checkpoint when one is lost."),
    "threads": _("CPU threads that training computes with. Empty: all that it may use."),
    "num_workers": _("Processes that load training data. Empty: chosen for this machine."),
    "checkpoint_every": _("Save a checkpoint every so many optimizer steps. 0 disables it."),
    "checkpoint_minutes": _("Save a checkpoint after so many minutes, to limit what a crash can lose. 0 disables it."),
    "keep_checkpoints": _("In addition to the last and the best one."),
    "patience": _("Stops after this many evaluations without improvement; 0 trains all epochs."),
    "max_hours": _("Training saves and stops after this time, and can be resumed."),
    "best_by": _("Speech compares how the checkpoints speak held-out texts, in up to a tenth of the time."),
    "sample_text": _("Generated at each evaluation, so that you can listen to the progress."),
    "use_amharic_g2p": _("For Amharic with little data. Use the same value in Step 1 and Step 2."),
    "dropout": _("Dropout probability. Empty: the base's default."),
    "conditioning": _("The clip that provides the voice."),
    "device": _("Automatic uses the GPU if there is one."),
    "max_mel_length": _(
        "Pads all batches to this number of codes (21.5 a second), as CUDA graphs require. Empty: no fixed length."
    ),
    "encoding": _(
        "Encoding of texts that are neither UTF-8 nor UTF-16, such as latin-1. Empty: such texts are reported."
    ),
    "shortest": _("Shorter subtitles are merged with their neighbors."),
    "longest": _("Longer passages are cut at a pause."),
    "padding": _("Limited to half of the pause."),
    "transcriber": _("For recordings without a transcript: a size, a model's name or a folder."),
    "transcriber_device": _("Automatic uses the GPU if there is one."),
    "compute_type": _(
        "Compute type of Whisper: int8 is small and fast on a CPU, float16 on a GPU. default keeps the model's "
        "own type."
    ),
    "beam_size": _("Beam size of Whisper. 1 is fastest."),
    "check_transcripts": _("Flags clips whose transcript differs from what Whisper recognizes."),
    "max_cer": _(
        "Maximum character error rate between transcript and Whisper: 0.3 is 30 of 100 characters. Other clips "
        "are flagged."
    ),
    "detect_language": _("Reports recordings in another language instead of transcribing them."),
    "eval_fraction": _("Fraction of the clips held out to measure the evaluation loss; at least one clip."),
    "loudness": _("Target loudness of all clips. -23 leaves headroom for peaks. Empty: unchanged."),
    "denoise": _("Removes steady noise with RNNoise (package pyrnnoise); listen before you train."),
    "highpass": _("Removes lower frequencies; 60 reduces rumble and hum. Empty: no filter."),
    "channel": _("The channel to use: the mean of both, one of them, or the louder one of each clip."),
    "workers": _("Processes that prepare clips in parallel. Empty: chosen for this machine."),
    "prefetch_factor": _("Batches that each data loader worker loads in advance. Empty: chosen for this machine."),
    "pin_memory": _("Page-locked batches, which copy to the GPU during computation. Automatic: on with a GPU."),
    "trim": _("Removes silence at the start and end of each clip."),
    "keep_before": _("Silence left before the first sound when trimming."),
    "keep_after": _("Silence left after the last sound when trimming."),
    "remove_dc": _("Removes a constant offset of the waveform, as some sound cards add."),
    "quality": _("Measures noise, clipping, speech and cut-off words, and finds near-duplicates."),
    "check_speakers": _("Flags clips whose voice differs from the speaker's other clips."),
    "check_quality": _("Flags clips with a low DNSMOS score. Requires the package speechmos."),
    "drop_flagged": _("Drops flagged clips until you keep them; otherwise they are used and listed."),
    "language": _("Automatic: the project's language."),
    "split": _("How many sentences the model speaks at a time. More give a more even prosody, fewer a faster start."),
    "temperature": _("Sampling temperature; 0 is greedy decoding."),
    "top_k": _("Samples from this many of the most likely codes; 0 disables the limit."),
    "top_p": _("Samples from the most likely codes whose probabilities add up to this value."),
    "repetition_penalty": _("Penalty for codes that were already generated; 1 disables it."),
    "speed": _("Speaking rate; 2 is twice as fast."),
}
CHOICES = {
    "auto": _("automatic"),
    "cpu": "CPU",
    "cuda": "CUDA GPU",
    "off": _("off"),
    "joined": _("as many sentences as fit"),
    "sentences": _("one sentence at a time"),
    "quick": _("first sentence alone, then as many as fit"),
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
    "mix": _("mean of both"),
    "left": _("left"),
    "right": _("right"),
    "louder": _("louder channel"),
    "own": _("same clip"),
    "own_masked": _("same clip, part not trained"),
    "other": _("another clip of the speaker"),
    "torch": "PyTorch",
    "flash-attn": "flash-attn",
    "explicit": _("explicit, step by step"),
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


def help_of(name: str, fallback: str) -> str:
    """What a setting means."""
    return HELPS.get(name, fallback)


def choice(value: str) -> str:
    """A value that can be chosen, in words."""
    return CHOICES.get(value, value)


def not_whole(name: str, value: object) -> str:
    """A field that holds a fraction where only whole numbers can be."""
    return _("{setting} is {value}; use a whole number").format(setting=label(name), value=value)


def not_a_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """A field that holds something that is not offered."""
    return _("{setting} is {value}; use {choices}").format(
        setting=label(name), value=repr(value), choices=_(" or ").join(choices)
    )


def not_a_number(name: str, value: object, *, whole: bool) -> str:
    """A field that holds no number."""
    if whole:
        return not_whole(name, repr(value))
    return _("{setting} is {value}; use a number such as 5e-6 or 0.1").format(setting=label(name), value=repr(value))


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
