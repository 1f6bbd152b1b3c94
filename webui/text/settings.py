"""Words about settings; what is not said here comes from the settings' own docstrings."""

import re

LABELS = {
    "num_epochs": "Epochs",
    "batch_size": "Batch size",
    "grad_accumulation": "Gradient accumulation",
    "learning_rate": "Learning rate",
    "max_audio_length": "Longest clip (seconds)",
    "max_text_length": "Longest transcript (tokens)",
    "schedule": "Schedule",
    "seed": "Seed",
    "gradient_checkpointing": "Gradient Checkpointing",
    "sdpa": "Fast Attention (SDPA)",
    "mixed_precision": "Mixed Precision (FP16/BF16)",
    "compile": "Compile",
    "eight_bit_optimizer": "8-bit Adam",
    "offload_optimizer": "Adam in the machine's memory",
    "lora_rank": "LoRA rank",
    "freeze_conditioning": "Frozen conditioning encoder",
    "tf32": "TF32 matrix products",
    "loader": "Data loading",
    "eval_batch_size": "Evaluation batch size",
    "warmup_steps": "Warm-up steps",
    "weight_decay": "Weight decay",
    "grad_clip_norm": "Gradient clipping (norm)",
    "num_workers": "Loading processes",
    "checkpoint_every": "Checkpoint every (steps)",
    "patience": "Stop early after (evaluations without gain)",
    "sample_text": "Sample sentences (separated by |)",
    "eval_fraction": "Share held out for evaluation",
    "device": "Device",
    "loudness": "Loudness (LUFS)",
    "trim": "Cut silence at the edges",
    "keep_before": "Silence kept before (seconds)",
    "keep_after": "Silence kept after (seconds)",
    "remove_dc": "Remove a constant offset",
    "highpass": "Remove sound below (Hz)",
    "channel": "Channel of stereo recordings",
    "quality": "Measure quality",
    "check_speakers": "Look for other voices",
    "check_quality": "Judge how clips sound",
    "drop_flagged": "Leave flagged clips out",
    "workers": "Processes",
    "dropout": "Dropout",
    "conditioning": "Voice heard from",
    "checkpoint_minutes": "Checkpoint every (minutes)",
    "keep_checkpoints": "Older checkpoints to keep",
    "max_hours": "Stop after (hours)",
    "prefetch_factor": "Batches loaded ahead",
    "pin_memory": "Pinned memory",
    "cuda_memory_fraction": "Share of the GPU's memory",
    "max_mel_length": "Codes laid out for each clip",
    "use_amharic_g2p": "Read Amharic in Latin letters",
    "encoding": "Encoding of the texts",
    "shortest": "Shortest clip cut from long recordings (seconds)",
    "longest": "Longest clip cut from long recordings (seconds)",
    "padding": "Silence kept around cut clips (seconds)",
    "transcriber": "Transcribe with Whisper",
    "transcriber_device": "Whisper runs on",
    "compute_type": "Whisper's numbers",
    "beam_size": "Whisper's beams",
    "check_transcripts": "Check transcripts with Whisper",
    "max_cer": "Letters it may hear otherwise (share)",
    "detect_language": "Let Whisper tell the language",
    "new_tokens": "New tokens",
    "num_sentences": "Sentences",
    "start_s": "From (s)",
    "end_s": "To (s)",
    "at_s": "Cut at (s)",
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "repetition_penalty": "Repetition penalty",
    "speed": "Speed",
    "split": "Spoken in one go",
    "language": "Language",
}
HELPS = {
    "learning_rate": "Peak, such as 5e-6. Empty: the base's own default; with LoRA up to ten times that.",
    "num_epochs": "Passes over the training clips. Empty: the base's own default.",
    "batch_size": "Clips in one pass. More is quicker on a GPU and takes more memory.",
    "grad_accumulation": "Batches summed into one update: a larger effective batch in the same memory.",
    "max_audio_length": "Longer clips are left out. Empty: the base's limit (XTTS v2: 11.6 s).",
    "max_text_length": "Longer transcripts are left out. Empty: the base's limit (XTTS v2: 200 tokens).",
    "schedule": "How the learning rate falls over the run.",
    "seed": "The same seed and settings give the same run.",
    "compile": "Compiles the model's blocks first; the first steps then take minutes, the others less time.",
    "lora_rank": "0 trains all weights; 8 to 64 trains small additions only, in less memory.",
    "eval_batch_size": "Clips in one pass when the loss on held-out clips is measured.",
    "warmup_steps": "Updates over which the learning rate rises from 0.",
    "weight_decay": "Pulls weights towards 0; 0.01 is XTTS's own.",
    "grad_clip_norm": "Larger updates are scaled down to this size.",
    "num_workers": "Processes that read clips beside training. Empty: chosen for this machine.",
    "checkpoint_every": "0 leaves it out: each epoch's end and the minutes below still save.",
    "checkpoint_minutes": "At most so much work is lost in a crash; 0 leaves it out.",
    "keep_checkpoints": "Beside the last and the best one.",
    "patience": "0 trains all epochs.",
    "max_hours": "Saves and stops then; it can be resumed. Empty: no limit.",
    "sample_text": "Spoken at each evaluation, for you to hear. Empty: the first held-out clip's text.",
    "use_amharic_g2p": "Only for Amharic, with little speech: the same in Step 1 and Step 2.",
    "dropout": "Share of activations dropped while training. Empty: the base's default.",
    "conditioning": "What a clip hears of itself does not train; of another clip, all of it does. Empty: as the base.",
    "device": "Automatic takes the GPU when there is one.",
    "max_mel_length": "One shape for all batches, as CUDA graphs need. Empty: as each batch needs.",
    "encoding": "Of texts that are neither UTF-8 nor UTF-16, such as latin-1. Empty: such texts are reported.",
    "shortest": "Shorter subtitles are joined with their neighbours.",
    "longest": "Longer ones are cut at a pause.",
    "padding": "Never beyond the middle of the pause.",
    "transcriber": "For recordings without transcript: tiny, base, small, medium or large-v3, or a folder. Empty: "
    "such recordings are reported.",
    "transcriber_device": "Automatic takes the GPU when there is one.",
    "compute_type": "int8 is small and quick on a CPU, float16 on a GPU; default is the model's own.",
    "beam_size": "Ways to go on that it weighs up; 1 is quickest.",
    "check_transcripts": "Needs a model above; clips in which it hears something else than the transcript are flagged.",
    "max_cer": "0.3 is 30 of 100 letters; clips above it are flagged.",
    "detect_language": "Recordings in another language than the project's are then reported, not transcribed.",
    "eval_fraction": "Of the clips; at least one. Their loss shows whether training helps.",
    "loudness": "All clips are brought to it: -23 leaves room for peaks. Empty: as they are.",
    "highpass": "Such as 60 against rumble and hum. Empty: nothing is removed.",
    "channel": "Of recordings with two: the mean, one of them, or the louder one of each clip.",
    "workers": "That prepare clips at the same time. Empty: chosen for this machine.",
}
CHOICES = {
    "auto": "automatic",
    "cpu": "CPU",
    "cuda": "CUDA GPU",
    "off": "off",
    "joined": "as many sentences as fit",
    "sentences": "each sentence alone",
    "quick": "the first alone, then as many as fit",
    "linear": "straight down",
    "cosine": "cosine",
    "polynomial": "polynomial",
    "constant": "stays the same",
    "none": "none",
    "selective": "what is cheap",
    "full": "everything",
    "fp32": "32 bits",
    "bf16": "BF16",
    "fp16": "FP16",
    "default": "on",
    "reduce-overhead": "on, with CUDA graphs",
    "max-autotune": "on, and search the quickest kernels",
    "mix": "mean of both",
    "left": "left",
    "right": "right",
    "louder": "the louder one",
    "own": "the clip itself",
    "other": "another clip of the speaker",
    "True": "yes",
    "False": "no",
}
OPEN = "automatic"


def label(name: str) -> str:
    """A setting's name for people."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


def help_of(name: str, fallback: str) -> str:
    """What a setting means."""
    return HELPS.get(name, fallback)


def choice(value: str) -> str:
    """A value that can be chosen, in words."""
    return CHOICES.get(value, value)


COMMAND = r"""python -m (?:'[^']*'|"[^"]*"|[^;\n)'"])*"""
"""A command line, whose flags are no settings of the form; paths in it may be quoted."""
FLAG = re.compile(rf"{COMMAND}|(?<!\S)--([a-z]+(?:-[a-z]+)*)")


def on_page(words: object) -> str:
    """A message of the engine, which names settings as the command line does, with the page's own names.

    Whole commands stay as they are: they are for a shell.
    """

    def labelled(flag: re.Match[str]) -> str:
        label = LABELS.get(flag[1].replace("-", "_")) if flag[1] else None
        return f"“{label}”" if label else flag[0]

    return FLAG.sub(labelled, str(words))
