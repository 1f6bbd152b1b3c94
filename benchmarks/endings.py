"""Whether a fine-tuned GPT knows where a sentence ends, measured without speaking.

python -m benchmarks.endings --project demo --runs ID --recordings unseen.csv compares runs of a project on recordings
of the voice that none of them trained on. The true codes are given to the model, and each next code is compared as
sampling would draw it: after repetition penalty, temperature and top-p. That takes seconds a run; speaking as many
sentences takes minutes, and the result varies by some of them from seed to seed.

Shapes: M codes of a clip, V code vocabulary.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
import torch.nn.functional as F
import tyro
from torch import Tensor

from utils.bases.find import run_base
from utils.config import TrainConfig
from utils.dataset.storage.manifest import read_manifest
from utils.inference.decode import FILLER
from utils.inference.engine import Synthesizer
from utils.model.gpt import XttsGpt
from utils.model.packing import pack
from utils.options import SpeechSettings
from utils.project.paths import open_project
from utils.runs.checkpoints import load_checkpoint
from utils.runs.layout import REFERENCE_FILE, checkpoint_of, find_run
from utils.training.data.codes import AudioFiles, encode_missing, up_to_silence

NUM_SILENT = 3
"""Codes at a clip's end that are silence; preparing leaves 0.25 s, five codes."""
NEAR_END = 0.9
"""Share of a clip before which a stop cuts the sentence."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to compare."""

    project: str
    """Project whose runs are compared; the base of the first is measured as well."""
    runs: tuple[str, ...]
    """Names of runs."""
    recordings: Path
    """Manifest of recordings with silence at their ends."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    language: str = "en"
    """Language of the texts."""
    checkpoint: str = "best"
    """Which checkpoint of each run: best or last."""
    out: Path | None = None
    """JSON file to write."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What a model says at the end of one clip, or of all, on average."""

    first: float
    """The stop ranks first at the end."""
    drawn: float
    """Probability that sampling draws it there."""
    babble: float
    """Probability that something else than silence is drawn between the last sound and the stop."""
    early: float
    """Stops that are drawn before the last tenth of the clip."""
    loss: float
    """Cross-entropy of the codes and the stop, in nats."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    project = open_project(settings.project, settings.output)
    runs = [find_run(project, name) for name in settings.runs]
    base, clips = run_base(runs[0]), read_manifest(settings.recordings)
    files = AudioFiles(project.dataset / "codes")
    hashes = [files.facts(clip.audio).content for clip in clips]
    recordings = {audio: clip.audio for audio, clip in zip(hashes, clips, strict=True)}
    cache = encode_missing(recordings, base, project.dataset / "codes")
    spans, cached = map(cache.index.__getitem__, hashes), cache.mapped()
    codes = [torch.from_numpy(cached[start : start + count].copy()).long() for start, count in spans]
    tokens = [torch.tensor(base.tokenizer().encode(clip.text, settings.language)) for clip in clips]
    silent = torch.cat([clip[-NUM_SILENT:] for clip in codes]).unique()
    trimmed = [torch.from_numpy(up_to_silence(clip.numpy())) for clip in codes]
    found = {}
    for name, run in {base.name: None, **dict(zip(settings.runs, runs, strict=True))}.items():
        state = load_checkpoint(checkpoint_of(run, settings.checkpoint)) if run else None
        model, is_trimmed = (
            Synthesizer(base, gpt_state=state),
            not run or TrainConfig.load(run / "config.yaml").trim_end,
        )
        latents = model.voice(runs[0] / REFERENCE_FILE).latents
        each = [
            ending(model.gpt, latents, text, said, silent, sound=len(short))
            for text, said, short in zip(tokens, trimmed if is_trimmed else codes, trimmed, strict=True)
        ]
        found[name] = {key: fmean(getattr(one, key) for one in each) for key in vars(each[0])}
        print(f"{name:24}" + "  ".join(f"{key} {value:.3f}" for key, value in found[name].items()), flush=True)
    if settings.out is not None:
        settings.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


@torch.inference_mode()
def ending(gpt: XttsGpt, latents: Tensor, text: Tensor, codes: Tensor, silent: Tensor, *, sound: int) -> Ending:
    """What a model says at the end of one clip.

    Args:
        gpt: in evaluation mode.
        latents: the voice, [1, 32, D].
        text: token ids.
        codes: of the clip, [M].
        silent: codes of silence.
        sound: codes up to the first of the closing silence.
    """
    # Speaking reads the text's STOP as well, which training skips, as stock does.
    read = torch.cat([text, torch.tensor([gpt.shape.stop_text])])
    stop, batch = gpt.shape.stop_audio, pack([read], [codes], gpt.shape)
    hidden = gpt.final_norm(gpt.transform(gpt.embed(batch, latents), batch))[0, batch.code_indices[: len(codes) + 1]]
    logits = gpt.mel_head(hidden).float()
    chances = drawn(logits, codes, start=gpt.shape.start_audio)
    babble, goes_on = 0.0, 1.0
    for at in chances[sound:]:
        still = float(at[silent].sum())
        babble += goes_on * max(1 - still - float(at[stop]), 0.0)
        goes_on *= still
    return Ending(
        first=float(logits[-1].argmax() == stop),
        drawn=float(chances[-1, stop]),
        babble=babble,
        early=float(chances[: int(NEAR_END * sound), stop].sum()),
        loss=float(F.cross_entropy(logits, torch.cat([codes, torch.tensor([stop])]))),
    )


def drawn(logits: Tensor, codes: Tensor, *, start: int, sampling: SpeechSettings | None = None) -> Tensor:
    """Probability that sampling draws each code after the true ones, from scores [M + 1, V]: [M + 1, V]."""
    sampling = sampling or SpeechSettings()
    spoken = torch.zeros(len(codes) + 1, logits.size(1), dtype=torch.bool)
    spoken[:, [FILLER, start]] = True
    for position, code in enumerate(codes.tolist(), start=1):
        spoken[position:, code] = True
    penalized = torch.where(logits < 0, logits * sampling.repetition_penalty, logits / sampling.repetition_penalty)
    chances = (torch.where(spoken, penalized, logits) / sampling.temperature).softmax(-1)
    ordered, order = chances.sort(dim=-1, descending=True)
    ordered[ordered.cumsum(-1) - ordered >= sampling.top_p] = 0
    return torch.zeros_like(chances).scatter(-1, order, ordered / ordered.sum(-1, keepdim=True))


if __name__ == "__main__":
    main()
