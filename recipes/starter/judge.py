"""Score a starter in the making: python -m recipes.starter.judge --work FOLDER, while its GPT still trains.

The newest checkpoint below work/gpt/runs speaks sentences of the evaluation split, never the held-out list. There is no
decoder yet: codes go through the DVAE's own decoder, and Griffin-Lim makes sound of the mel. That sounds hollow but the
words are all there. "ceiling" is the true recording's codes on the same way: no GPT can do better.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
import torchaudio
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor
from TTS.tts.layers.xtts.dvae import DiscreteVAE

from recipes.base.gpt import CROP
from recipes.starter.corpus import read_manifest, read_wav
from recipes.starter.voices import GPT_VOICES, EspeakVoice
from utils.audio.resample import resample
from utils.bases.base import Base
from utils.codec_training.dvae import load_dvae
from utils.errors import UserError
from utils.evaluation.evaluate import make_sentence, write_evaluation
from utils.evaluation.features import RATE
from utils.evaluation.measure import Said, SpokenSentence, TestedModel, score_model
from utils.evaluation.reference import ReferenceVoice
from utils.evaluation.scores import ModelScores
from utils.inference.decode_text import decode
from utils.inference.sampling import Sampling
from utils.model.dvae import CodeEncoder, load_code_encoder
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.mel import HOP, conditioning_mel
from utils.model.xtts import build_gpt
from utils.options import DATASET_RATE, OUTPUT_RATE
from utils.runs.checkpoints import Checkpoints, load_checkpoint

REFERENCE_CLIPS = 3
MEL_FFT, MEL_WINDOW = 1024, 1024


@dataclass(frozen=True, kw_only=True)
class JudgeConfig:
    """Measure the newest checkpoint of the recipe's GPT through the DVAE's decoder."""

    work: Path = Path("~/.cache/xtts-finetuning-studio/starter")
    """The recipe's folder."""
    checkpoint: Path | None = None
    """Folder of a checkpoint; the newest complete one when not given."""
    num_sentences: int = 24
    """Sentences of the evaluation split, the voices taking turns."""
    temperature: float = 0.65
    """Sampling temperature."""
    out: Path = Path("judged")
    """Folder for figures, pictures and wavs."""


class Hollow:
    """Codes to sound without a trained decoder: the DVAE's mel, its inverse, Griffin-Lim.

    Source: Griffin and Lim 1984; mel settings of `utils.model.mel.dvae_mel`.
    """

    def __init__(self, dvae: DiscreteVAE, mel_stats: Tensor) -> None:
        self.dvae, self.mel_stats = dvae.eval(), mel_stats
        bins = MEL_FFT // 2 + 1
        bands = torchaudio.functional.melscale_fbanks(bins, 0, 8000, 80, DATASET_RATE, norm="slaney", mel_scale="htk")
        self.inverse = torch.linalg.pinv(bands)
        self.griffin_lim = torchaudio.transforms.GriffinLim(MEL_FFT, 32, MEL_WINDOW, HOP, power=2)

    @torch.inference_mode()
    def __call__(self, codes: Tensor) -> Tensor:
        """Codes [M] to sound [1, N] at 22 050 Hz."""
        if not len(codes):
            return torch.zeros(1, HOP)
        mel, _ = self.dvae.decode(codes[None])
        power = (mel[0] * self.mel_stats[:, None]).exp()
        spectrum = (self.inverse.T @ power).clamp(min=1e-8)
        # Griffin-Lim begins at random phases; the same sound each time makes figures comparable.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            sound: Tensor = self.griffin_lim(spectrum[None])
        return sound / sound.abs().max().clamp(min=1.0)


def main() -> None:
    config = tyro.cli(JudgeConfig, description=JudgeConfig.__doc__)
    try:
        checkpoint, models = score_checkpoint(config)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
    Console().print(table(checkpoint.name, models))
    print(f"figures, pictures and wavs: {config.out}")


def score_checkpoint(config: JudgeConfig) -> tuple[Path, list[ModelScores]]:
    """The scored checkpoint, and the scores of the GPT and of the ceiling.

    Raises:
        UserError: the GPT has no checkpoint yet.
    """
    work = config.work.expanduser()
    checkpoint = config.checkpoint or newest_checkpoint(work)
    base = Base(work / "seed_base")
    dvae, mel_stats = load_dvae(work / "dvae")
    hollow = Hollow(dvae, mel_stats)
    rows = read_manifest(work / "corpus" / "metadata_eval.csv")[: config.num_sentences]
    sentences = [
        make_sentence(
            text, [other for _, other, _ in rows], reference_voice(name), recording=load_recording(path), of=name
        )
        for path, text, name in rows
    ]
    recordings = {text: path for path, text, _ in rows}
    gpt = build_gpt(
        base.gpt_shape(), load_checkpoint(checkpoint), where=str(checkpoint), options=ForwardOptions(sdpa=True)
    ).eval()
    voices = {name: reference(work, name) for name in {name for _, _, name in rows}}
    speak = _gpt(gpt, base, voices, hollow, Sampling(temperature=config.temperature))
    ceiling = _ceiling(load_code_encoder(base.dvae, mel_stats), recordings, hollow)
    speakers = [
        TestedModel(name="gpt", speak=partial(map, speak)),
        TestedModel(name="ceiling", speak=partial(map, ceiling)),
    ]
    targets = {name: resample(wav, DATASET_RATE, RATE) for name, wav in voices.items()}
    config.out.mkdir(parents=True, exist_ok=True)
    models = [score_model(speaker, sentences, voices=targets, folder=config.out) for speaker in speakers]
    missing = {
        "cosine": "not computed by this command",
        "wer": "not computed by this command",
        "cer": "not computed by this command",
    }
    write_evaluation(config.out, models, missing, {"checkpoint": str(checkpoint), "temperature": config.temperature})
    return checkpoint, models


def newest_checkpoint(work: Path) -> Path:
    """The last complete checkpoint of the newest run that has one.

    Raises:
        UserError: there is none.
    """
    runs = sorted((work / "gpt" / "runs").glob("*/checkpoints"), reverse=True)
    found = next((last for path in runs if (last := Checkpoints(path).last())), None)
    if found is None:
        raise UserError(what="the GPT has no checkpoint yet", where=str(work / "gpt"), fix="train it: make starter")
    return found


def reference_voice(name: str) -> ReferenceVoice:
    """One of the recipe's voices as the reference synthesizer."""
    voice: EspeakVoice = next(voice for voice in GPT_VOICES if voice.name == name)
    return ReferenceVoice(name=voice.voice, pitch=voice.pitch, speed=voice.speed)


def reference(work: Path, voice: str) -> Tensor:
    """Some training clips of a voice in a row, [1, N] at 22 050 Hz."""
    rows = read_manifest(work / "corpus" / "metadata_train.csv")
    paths = islice((path for path, _, name in rows if name == voice), REFERENCE_CLIPS)
    return torch.cat([read_wav(path) for path in paths], dim=1)


def load_recording(path: Path) -> Tensor:
    """A corpus clip as the metrics expect it, [1, N] at 16 000 Hz."""
    return resample(read_wav(path), DATASET_RATE, RATE)


def _gpt(
    gpt: XttsGpt, base: Base, voices: dict[str, Tensor], hollow: Hollow, sampling: Sampling
) -> Callable[[SpokenSentence], Said]:
    mel, tokenizer = conditioning_mel(base.mel_stats()), base.tokenizer()
    with torch.inference_mode():
        latents = {
            name: torch.stack([gpt.latents(mel(part)) for part in wav.split(CROP[1], dim=1)[:-1]]).mean(0)
            for name, wav in voices.items()
        }

    def speak(sentence: SpokenSentence) -> Said:
        generator = torch.Generator().manual_seed(1)
        tokens = tokenizer.encode(sentence.text, "en")
        # 0.2 s a letter is slow speech; what lasts longer never ends.
        said = decode(
            gpt, latents[sentence.voice], tokens, sampling, generator=generator, max_codes=65 + 5 * len(tokens)
        )
        codes = said.codes[said.codes < gpt.shape.num_codes]
        return Said(wav=resample(hollow(codes), DATASET_RATE, OUTPUT_RATE), finished=said.stopped)

    return speak


def _ceiling(encoder: CodeEncoder, recordings: dict[str, Path], hollow: Hollow) -> Callable[[SpokenSentence], Said]:
    def speak(sentence: SpokenSentence) -> Said:
        wav = read_wav(recordings[sentence.text])
        (codes,) = encoder(wav, [wav.shape[1]])
        return Said(wav=resample(hollow(codes.long()), DATASET_RATE, OUTPUT_RATE), finished=True)

    return speak


def table(title: str, models: list[ModelScores]) -> Table:
    """A row a figure, a column a model."""
    made = Table("", *[model.name for model in models], box=None, title=title)
    summaries = [model.summary for model in models]
    for name in ("sentences", "retrieval", "near_miss", "mcd_db", "pitch", "spectrum", "duration_ratio"):
        made.add_row(name, *[f"{getattr(one, name):.3g}" for one in summaries])
    for name in ("silent", "run_on", "early_stop", "loop", "flawless", "real_time"):
        made.add_row(name, *[f"{getattr(one, name):.3g}" for one in summaries])
    return made


if __name__ == "__main__":
    main()
