"""Settings of an evaluation."""

from dataclasses import dataclass
from pathlib import Path

from utils.options import Device, SpeechPrecision
from utils.settings import Config

CHECKPOINTS = ("base", "best", "last", "ready")
RESULT_FILE = "evaluation.json"
"""In the folder of each evaluation: what was found."""


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(Config):
    """Have models speak sentences they were not trained on, and measure words, voice and defects."""

    project: str | None = None
    """Project whose voice is measured."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    checkpoint: str = "best,base"
    """Which of the project's models, separated by commas: base, best, last, ready."""
    run: str | None = None
    """Run to take checkpoints from; the newest with a checkpoint when not given."""
    model: str | None = None
    """Measure this base or model folder instead of a project."""
    sentences: Path | None = None
    """Text file with one sentence a line; the project's evaluation clips when not given."""
    num_sentences: int = 20
    """How many sentences at most, from the beginning."""
    reference: Path | None = None
    """Recording of the voice; the run's or the model's own reference.wav when not given."""
    language: str | None = None
    """Language code of the sentences; the project's or the model's own when not given."""
    synthesiser_voice: str | None = None
    """espeak-ng voice that says the reference sentences, such as en-us+f2; the language's own when not given."""
    whisper: str | None = None
    """faster-whisper weights for word error rates: a folder, or a model name found in Hugging Face's cache; the weights
    of requirements-quality.txt when not given, if they are installed."""
    temperature: float = 0.65
    """Sampling temperature; 0 takes the likeliest code each time."""
    seed: int = 1
    """Fixes the sampling."""
    precision: SpeechPrecision = "fp32"
    """Data type of the weights: fp32, fp16, bf16, int8, or auto as applications take it."""
    device: Device = "auto"
    """Device: auto, cpu or cuda; auto is the CPU while another job has the GPU."""
    guard: bool = False
    """Speak with guards, as applications do; off measures the model itself."""
    out: Path | None = None
    """Folder for tables, pictures and wavs; evaluation/<time> in the project when not given."""

    @property
    def checkpoints(self) -> list[str]:
        """The models asked for, each once, in the order given."""
        return list(dict.fromkeys(name.strip() for name in self.checkpoint.split(",") if name.strip()))

    def problems(self) -> list[str]:
        found = self.beyond(_LIMITS)
        if (self.project is None) == (self.model is None):
            found.append("give either a project or a model")
        if self.model is not None and self.sentences is None:
            found.append("a model has no evaluation clips; give --sentences FILE with one sentence a line")
        if self.model is not None and self.out is None:
            found.append("a model has no project folder; give --out FOLDER for the tables and wavs")
        unknown = [name for name in self.checkpoints if name not in CHECKPOINTS]
        if unknown or not self.checkpoints:
            found.append(f"checkpoint is {self.checkpoint!r}; use {', '.join(CHECKPOINTS)}, separated by commas")
        if self.num_sentences < 2:
            found.append(f"num_sentences is {self.num_sentences}; retrieval needs 2 or more")
        return found


_LIMITS = {"temperature": ("[0, 2]", "", "0 (greedy) to 2"), "seed": (f"[0, {2**63})", "", "0 or more")}
