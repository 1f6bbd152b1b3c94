"""Settings of training, export and `synthesize`: dataclasses that page, command line and Python call share.

A field that is None takes the default of the chosen base model (see `utils.bases.base.TrainingDefaults`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from utils.options import (
    DATASET_RATE,
    MIN_CLIP_SECONDS,
    STARTER,
    AttentionKernel,
    BestBy,
    Checkpointing,
    CompileMode,
    ComputeDevice,
    Conditioning,
    Device,
    Precision,
    Schedule,
    SpeechPrecision,
    SpeechSettings,
    kept_shares,
)
from utils.settings import Config
from utils.switches import SWITCHES


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """Fine-tune the GPT of a base model on a prepared dataset."""

    project: str
    """Name of the voice; its folder below `output`."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    base: str = STARTER
    """Base model: starter, tiny, v2.0.2, v2.0.3, main, a base or ready/ folder, or an earlier run: run/ID/best."""
    language: str | None = None
    """Language code; the dataset's own when not given."""
    use_amharic_g2p: bool = False
    """Read Amharic as phonemes in Latin letters; the run trains a copy of the base with the tokens that this needs."""
    train_csv: Path | None = None
    """Training clips; the project's metadata_train.csv when not given."""
    eval_csv: Path | None = None
    """Evaluation clips; the project's metadata_eval.csv when not given."""
    keep_languages: str | None = None
    """Prepared projects in other languages, FOLDER or FOLDER:SHARE with commas between: this share of an epoch's clips
    (0.1 when not given) is drawn from each, so that the base loses less of what else it speaks."""
    num_epochs: int | None = None
    """Passes over the training clips; the base's default when not given."""
    batch_size: int = 4
    """Clips in one forward pass (micro-batch)."""
    batch_tokens: int = 0
    """Positions of a micro-batch at most (conditioning, text and audio codes, with padding), whatever its number of
    clips; 0 counts clips by `batch_size` instead."""
    grad_accumulation: int = 1
    """Micro-batches summed into one optimizer step."""
    eval_batch_size: int = 4
    """Clips in one evaluation pass."""
    learning_rate: float | None = None
    """Peak learning rate; the base's default when not given, with LoRA up to ten times that."""
    schedule: Schedule = "cosine"
    """Learning rate schedule after the warm-up, updated at each optimizer step."""
    warmup_steps: int = 0
    """Optimizer steps over which the learning rate rises linearly from 0 to its peak."""
    weight_decay: float = 1e-2
    """AdamW weight decay."""
    grad_clip_norm: float = 1.0
    """Gradients are scaled down to this L2 norm."""
    max_audio_length: int | None = None
    """Longest clip, in samples at 22 050 Hz; the base's limit when not given (XTTS v2: 255 995, 11.6 s)."""
    max_text_length: int | None = None
    """Longest transcript, in tokens; the base's limit when not given (XTTS v2: 200)."""
    seed: int = 1
    """Fixes shuffling, conditioning crops and dropout."""
    processes: int = 1
    """Processes that train together on this computer, each with a GPU and a batch of its own; 0 is one for each GPU."""
    max_restarts: int = 0
    """Times that several processes are started again, from the newest checkpoint, after one of them was lost."""
    threads: int | None = None
    """CPU threads that the training process computes with; as many as it may use when not given."""
    num_workers: int | None = None
    """Processes that load clips; 0 loads in the training process. Chosen from data and machine when not given."""
    prefetch_factor: int | None = None
    """Batches that each loading process keeps ready; chosen when not given."""
    pin_memory: bool | None = None
    """Page-locked batches, which a GPU copies while it computes; on with a GPU when not given."""
    checkpoint_every: int = 0
    """Optimizer steps between checkpoints, in addition to each epoch's end and `checkpoint_minutes`; 0 is off."""
    checkpoint_minutes: float = 15.0
    """Minutes between checkpoints, in addition to each epoch's end; 0 is off."""
    keep_checkpoints: int = 0
    """Older checkpoints to keep in addition to the last and the best."""
    patience: int = 0
    """Stop early after this many evaluations in a row without a lower loss; 0 trains all epochs."""
    max_hours: float | None = None
    """Save and stop after this many hours; a resumed run gets as many again. No limit when not given."""
    best_by: BestBy = "speech"
    """What chooses the best checkpoint at the end: speech, how the checkpoints speak evaluation texts (in at most a
    tenth of the training time; otherwise as with loss); loss, the lowest evaluation loss."""
    sample_text: str | None = None
    """Text that a second process speaks after each evaluation; `|` separates sentences, empty is off. The first
    evaluation clip's text when not given, unless the base cannot speak (tiny)."""
    log_to: str | None = None
    """Loggers besides the event log: tensorboard, wandb, or both, separated by a comma."""
    profile: int = 0
    """Steps to trace with torch.profiler into the run's folder, up to 100 of one epoch, from the second one on; 0 is
    off."""
    gradient_checkpointing: Checkpointing = "none"
    """Recompute activations in the backward pass: less memory, more time. selective keeps what is expensive."""
    sdpa: bool = True
    """Fused scaled-dot-product attention; off computes softmax attention step by step, as the reference."""
    attention: AttentionKernel = "auto"
    """Whose attention kernels: torch, PyTorch's; flash-attn, those of the package, on CUDA; explicit, softmax attention
    step by step (as sdpa off). auto takes flash-attn where it is installed and works, otherwise PyTorch's."""
    mixed_precision: Precision = "fp32"
    """Data type of the matrix products; weights, losses and norms stay fp32. auto takes the device's fastest."""
    compile: CompileMode = "off"
    """Compile the transformer blocks with torch.compile; the first steps then take minutes."""
    eight_bit_optimizer: bool = False
    """Keep AdamW's moments in 8 bits: 2 bytes a parameter instead of 8. Needs a CUDA GPU and bitsandbytes."""
    paged_optimizer: bool = False
    """Keep AdamW's moments in memory that moves to the machine's when the GPU is full."""
    lora_rank: int = 0
    """Train LoRA adapters of this rank on the transformer blocks instead of all weights; 0 trains all weights."""
    freeze_conditioning: bool = False
    """Freeze the conditioning encoder: less memory and time; only the transformer blocks then learn the voice."""
    cuda_memory_fraction: float | None = None
    """Share of the GPU's memory that training may take; all of it when not given."""
    max_mel_length: int | None = None
    """Fixed length of each clip in codes (of 1024 samples or 4 mel frames, 21.5 a second), at most that of the longest
    clip: one static batch shape, as CUDA graphs need; by batch when not given."""
    conditioning: Conditioning | None = None
    """Where the conditioning crop is from: other, another clip by the same speaker; own, the clip itself; own_masked,
    the clip itself, and the crop's codes do not train (as `own` of earlier versions). The base's default when not
    given."""
    trim_end: bool = True
    """Train on each clip's codes up to the first one of its closing silence. Sampling penalizes codes that were spoken
    before: a model that learned to stop after more silence cannot say it, and says something else."""
    reading_weight: float = 0.0
    """Weight of the guided attention loss; 0 is off. Needs the manifest's column word_times."""
    dropout: float | None = None
    """Share of embeddings, residuals and attention weights dropped; the base's default when not given."""
    device: ComputeDevice = "auto"
    """Where to train; auto takes a CUDA GPU when there is one. mps is Apple's GPU, in fp32, which we have not seen."""
    resume: Path | None = None
    """Resume a run (more epochs may be given): last, best, a run's folder or name, or a checkpoint's folder."""
    allow_changes: bool = False
    """Allow a resumed run other settings or clips than it had; otherwise they are listed and refused."""
    run_id: str | None = None
    """Name of the new run's folder; the start time when not given."""

    @classmethod
    def from_saved(cls, values: dict[str, Any], *, where: str) -> Self:
        """Settings of a run; those of an earlier version, which had no `trim_end`, keep their meaning."""
        if "trim_end" not in values:
            conditioning = "other" if values.get("conditioning") == "other" else "own_masked"
            values = values | {"trim_end": False, "conditioning": conditioning}
        return super().from_saved(values, where=where)

    def problems(self) -> list[str]:
        found = self.beyond(_TRAIN_LIMITS)
        if self.batch_tokens and self.max_mel_length is not None:
            found.append("batch_tokens and max_mel_length exclude each other: a fixed length is for a fixed batch_size")
        if self.allow_changes and self.resume is None:
            found.append("allow_changes is for a run that is resumed; give resume as well, or leave it out")
        if self.device == "mps" and self.processes != 1:
            found.append("device mps trains in one process; omit processes")
        shares = [share for _, share in kept_shares(self.keep_languages)]
        if shares and not 0.001 <= min(shares) <= sum(shares) <= 0.5:
            found.append(
                f"keep_languages is {self.keep_languages!r}; use shares from 0.001 on, 0.5 at most in all, such as "
                "output/spanish:0.1"
            )
        return found + [problem for switch in SWITCHES if (problem := switch.problem(self))]


_MINIMUMS = {
    "num_epochs": 1,
    "batch_size": 1,
    "batch_tokens": 0,
    "grad_accumulation": 1,
    "eval_batch_size": 1,
    "warmup_steps": 0,
    "threads": 1,
    "processes": 0,
    "max_restarts": 0,
    "max_audio_length": int(MIN_CLIP_SECONDS * DATASET_RATE),
    "max_text_length": 1,
    "seed": 0,
    "num_workers": 0,
    "prefetch_factor": 1,
    "max_mel_length": 1,
    "checkpoint_every": 0,
    "keep_checkpoints": 0,
    "patience": 0,
}
_TRAIN_LIMITS = {name: (f"[{least}, inf]", "", f"{least} or more") for name, least in _MINIMUMS.items()} | {
    "learning_rate": ("(0, 1)", "", "a value between 1e-7 and 1e-2"),
    "weight_decay": ("[0, 1)", "", "a value from 0 to 0.1"),
    "dropout": ("[0, 1)", "", "a share from 0 to 0.5"),
    "checkpoint_minutes": ("[0, inf]", "", "0 (off) or more"),
    "profile": ("[0, 100]", "", "0 (off) to 100, which a trace can hold"),
    "max_hours": ("(0, inf]", "", "more than 0, such as 8"),
    "reading_weight": ("[0, inf)", "", "0 (off) or a weight such as 0.2"),
    "grad_clip_norm": ("(0, inf]", "", "a positive norm such as 1.0"),
}


@dataclass(frozen=True, kw_only=True)
class DemoConfig(Config):
    """Prepare, train, export and speak with the bundled voice."""

    project: str = "demo"
    """Name of the voice; its folder below `output`."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    base: str = STARTER
    """Base model to fine-tune; tiny is quicker, but speaks noise."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig(Config):
    """Export a run's weights together with its base as one model folder."""

    project: str
    """Name of the voice; its folder below `output`."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    run: str | None = None
    """Run to export; the newest run with a checkpoint when not given."""
    checkpoint: Literal["best", "last"] = "best"
    """Checkpoint of the run to export."""
    adapter: bool = False
    """Write a LoRA run's additions and recording only, as ready/voice.safetensors: a small file that speaks over its
    base. A full model that is there stays."""
    tune_decoder: bool | None = None
    """Fit the decoder to the voice, which brings its timbre nearer; as the base does when not given (XTTS v2: no). The
    fitted decoder is kept only if it says held-out clips better."""
    decoder_steps: int | None = None
    """Steps of that; the base's own number when not given, 1000 for XTTS v2."""
    device: Device = "auto"
    """Computing device of that, for decoders of stock's kind; the starter's takes a minute on the CPU. Also of the
    comparison."""
    compare: bool = True
    """Have the base and the exported model speak new texts, and warn where the model speaks worse."""

    def problems(self) -> list[str]:
        if self.adapter and (self.tune_decoder or self.decoder_steps):
            return ["adapter writes a file without a decoder; omit tune_decoder and decoder_steps"]
        return []


@dataclass(frozen=True, kw_only=True)
class SynthesizeConfig(SpeechSettings):
    """Generate speech from a text with an exported model or a base."""

    text: str
    """Text to speak."""
    project: str | None = None
    """Project whose exported model (ready/) speaks."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    model: str | None = None
    """Model that speaks: a base name, a model folder, or with --project voice, run/ID/best or run/ID/last; ready/ of
    the project when not given, or the base of the adapter."""
    adapter: Path | None = None
    """A LoRA voice that speaks over its base: a voice.safetensors of `export --adapter`."""
    out: Path = Path("speech.wav")
    """Wav file to write: 24 000 Hz, mono, 16 bit."""
    reference: Path | None = None
    """Recording whose voice to speak with; the model's reference.wav when not given."""
    voice: str = ""
    """A voice of the library (`python -m utils.cli.voices`) or of the model, or a mixture such as anna:0.7,ben:0.3."""
    precision: SpeechPrecision = "auto"
    """Data type of the weights: fp32 (the reference), fp16 or bf16, int8 (fastest on a CPU); auto takes 16 bits."""
    device: ComputeDevice = "auto"
    """Device: auto, cpu or cuda; mps is Apple's GPU, in fp32, which we have not seen."""
    transcriber: str | None = None
    """Whisper model (size, Hugging Face name or folder) that checks each sentence; one with other words is generated
    again."""

    def problems(self) -> list[str]:
        found = super().problems()
        if not self.text.strip():
            found.append("text is empty; give the words to speak")
        if self.project is None and self.model is None and self.adapter is None:
            found.append("give either a project or a model")
        if self.voice.strip() and self.reference is not None:
            found.append("both a voice and a reference are given; give one of them")
        return found
