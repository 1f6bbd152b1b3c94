"""Words about settings; what is not said here comes from the settings' own docstrings."""

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
    "optimizer_8bit": "8-bit Adam",
    "eight_bit_optimizer": "8-bit Adam",
    "offload_optimizer": "Adam in the machine's memory",
    "lora": "LoRA",
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
    "checkpoint_minutes": "Checkpoint every (minutes)",
    "keep_checkpoints": "Older checkpoints to keep",
    "max_hours": "Stop after (hours)",
    "prefetch_factor": "Batches loaded ahead",
    "pin_memory": "Pinned memory",
    "cuda_memory_fraction": "Share of the GPU's memory",
    "max_mel_length": "Codes laid out for each clip",
    "temperature": "Temperature",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "repetition_penalty": "Repetition penalty",
    "speed": "Speed",
    "split": "Spoken in one go",
    "language": "Language",
}
HELPS = {
    "learning_rate": "Peak, such as 5e-6. Empty: the base's own default, which suits it.",
    "num_epochs": "Passes over the training clips. Empty: the base's own default.",
    "max_audio_length": "Longer clips are left out. Empty: the base's limit (XTTS v2: 11.6 s).",
    "gradient_accumulation": "Batches summed into one update: a larger effective batch in the same memory.",
}
CHOICES = {
    "auto": "automatic",
    "cpu": "CPU",
    "cuda": "CUDA GPU",
    "off": "off",
    "joined": "as many sentences as fit",
    "sentences": "each sentence alone",
    "quick": "the first alone, then as many as fit",
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


def choice(setting: str, value: str) -> str:
    """A value that can be chosen for a setting."""
    return CHOICES.get(value, value)
