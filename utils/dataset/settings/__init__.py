"""Settings of a preparation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from utils.options import DATASET_RATE, MIN_CLIP_SECONDS, STARTER, Channel, Device
from utils.settings import Config, is_encoding

Engine = Literal["local", "ray"]
"""Where clips are prepared: processes of this machine, or a Ray cluster."""
_TYPES = "default auto int8 int8_float32 int8_float16 int8_bfloat16 int16 float16 bfloat16 float32"
COMPUTE_TYPES = tuple(_TYPES.split())
"""Of the recognizer's numbers, as CTranslate2 names them."""
_SHORTEST = int(MIN_CLIP_SECONDS * DATASET_RATE)
_LIMITS = {
    "loudness": ("[-50, -10]", "LUFS", "-50 to -10, such as -23, or None"),
    "keep_before": ("[0, 2]", "s", "0 to 2"),
    "keep_after": ("[0, 2]", "s", "0 to 2"),
    "highpass": ("[10, 500]", "Hz", "10 to 500, such as 60, or None"),
    "eval_fraction": ("(0, 1)", "", "a share between 0 and 1, such as 0.1"),
    "max_audio_length": (f"[{_SHORTEST}, inf]", "samples", f"{_SHORTEST} (0.5 s) or more"),
    "padding": ("[0, 1]", "s", "0 to 1"),
    "beam_size": ("[1, 20]", "", "1 to 20"),
    "max_cer": ("(0, 2]", "", "a share such as 0.3, up to 2"),
    "max_text_length": ("[1, inf]", "tokens", "1 or more"),
    "workers": ("[1, 64]", "", "1 to 64 processes"),
}


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Config):
    """Turn recordings with transcripts into a dataset."""

    project: str
    """Name of the voice; its folder below `output`."""
    input: Path
    """Folder or zip with recordings and their transcripts or subtitles, a metadata CSV or JSONL, one recording, or
    a Hugging Face dataset (Parquet files or a saved folder)."""
    language: str
    """Language of the transcripts, as a code: en, de, zh-cn, ..."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    also: tuple[Path, ...] = ()
    """More inputs of any kind, prepared together with `input`."""
    encoding: str | None = None
    """Encoding of texts that are neither UTF-8 nor UTF-16, such as latin-1; without it they are reported as errors."""
    shortest: float = 2.0
    """Shortest clip cut from a long recording, in seconds; shorter cues are merged with their neighbors."""
    longest: float = 11.0
    """Longest clip cut from a long recording, in seconds."""
    clean_subtitles: bool = True
    """Remove speaker labels, dashes, sound descriptions and note signs from subtitles; the report names them."""
    padding: float = 0.25
    """Silence kept at both ends of a clip cut from a long recording, in seconds; never beyond the pause's middle."""
    transcriber: str | None = None
    """Whisper model for recordings without times: a size (tiny to large-v3), a name or a folder; None reports them."""
    transcriber_device: Device = "auto"
    """Device that Whisper runs on."""
    compute_type: str = "default"
    """Precision of Whisper: int8 is small and fast on a CPU, float16 on a GPU; default is the model's own."""
    beam_size: int = 5
    """Beam size of Whisper's decoding; 1 is fastest."""
    check_transcripts: bool = False
    """Transcribe every clip with Whisper and flag clips whose transcripts differ."""
    max_cer: float = 0.3
    """Allowed mismatch: the character error rate above which `check_transcripts` flags a clip."""
    detect_language: bool = False
    """Detect the spoken language; a recording mostly in another than the dataset's is reported, not transcribed."""
    base: str = STARTER
    """Base model whose tokenizer and limits the clips must fit: a base name or a folder."""
    use_amharic_g2p: bool = False
    """Check Amharic texts as the phonemes in Latin letters that training with this setting reads."""
    max_audio_length: int | None = None
    """Longest clip, in samples at 22 050 Hz; the base's limit when not given (XTTS v2: 255 995, 11.6 s)."""
    max_text_length: int | None = None
    """Longest transcript, in tokens; the base's limit when not given (XTTS v2: 200)."""
    eval_fraction: float = 0.1
    """Share of the clips held out for evaluation; at least one clip is."""
    loudness: float | None = -23.0
    """Loudness of every clip, in LUFS (EBU R 128's -23 leaves room for peaks); None leaves clips as they are."""
    trim: bool = True
    """Cut silence at the edges of each clip."""
    keep_before: float = 0.1
    """Silence that trimming leaves before the first sound, in seconds."""
    keep_after: float = 0.25
    """Silence that trimming leaves after the last sound, in seconds: weak endings die away in it."""
    remove_dc: bool = True
    """Remove the DC offset that cheap sound cards add."""
    highpass: float | None = None
    """Cutoff of a high-pass filter, in Hz, such as 60 against rumble and hum; None filters nothing."""
    denoise: bool = False
    """Remove noise from every clip with RNNoise; needs the package pyrnnoise. Listen to some clips before training."""
    channel: Channel = "mix"
    """Channel of a stereo recording to use; mix is the mean, louder is each clip's louder one."""
    quality: bool = True
    """Measure noise, clipping, share of speech and cut edges, and find near-duplicate clips."""
    check_speakers: bool = True
    """Find clips that differ from their speaker's other clips, with the base's own speaker encoder."""
    check_quality: bool = True
    """Score the clips with DNSMOS, where the package speechmos is installed."""
    drop_flagged: bool = False
    """Drop flagged clips until they are accepted; otherwise they are used and listed."""
    workers: int | None = None
    """Processes that prepare clips; 1 works in the main process. Chosen from CPU and amount of work when not given."""
    engine: Engine = "local"
    """Where clips are prepared: `local` processes, or `ray`, a cluster whose machines share all folders."""

    def problems(self) -> list[str]:
        found = self.beyond(_LIMITS)
        if not MIN_CLIP_SECONDS <= self.shortest < self.longest <= 30:
            limits = f"{MIN_CLIP_SECONDS} <= shortest < longest <= 30 s"
            found.append(f"shortest is {self.shortest} and longest {self.longest}; use {limits}")
        if self.check_transcripts and self.transcriber is None:
            found.append("check_transcripts needs a recognizer; name one with transcriber, such as small, or a folder")
        if self.check_transcripts and not self.quality:
            found.append("check_transcripts is a measure, and quality is off; switch quality on, or leave it out")
        if self.compute_type not in COMPUTE_TYPES:
            found.append(f"compute_type is {self.compute_type!r}; use one of {', '.join(COMPUTE_TYPES)}")
        if self.encoding is not None and not is_encoding(self.encoding):
            found.append(f"encoding is {self.encoding!r}; use a name such as latin-1, cp1251 or shift-jis")
        return found
