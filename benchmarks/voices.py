"""How well a fine-tuned voice speaks: python -m benchmarks.voices --recordings FOLDER ... (it resumes).

Voices that the starter was not trained on, each a folder with metadata.csv and its clips, are fine-tuned on their first
minutes with the starter's defaults, three seeds each, and exported. The base, the best checkpoint and the exported
model then say sentences that nothing was chosen with, and stock coqui-tts's own recipe, trained on the same clips for
the same seconds, says them through the same decoder. Words are judged by two recognizers and the voice by a second
speaker encoder that nothing was trained or chosen with; guards are off. `python -m recipes.base.recordings` writes
folders of the voices that were held out of the starter's recipe.

Writes benchmarks/results/voices.json; --picture FILE draws it.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import soundfile
import torch
import tyro

from utils.audio.decode import load_audio
from utils.bases.find import find_base
from utils.config import ExportConfig, TrainConfig
from utils.dataset.build import prepare
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.manifest import read_manifest
from utils.evaluation.evaluate import Evaluation, evaluate
from utils.evaluation.features import RATE
from utils.evaluation.measure import Embed, embedder
from utils.evaluation.recognition import find_recognizer
from utils.evaluation.scores import ModelScores, error_rates
from utils.evaluation.second_encoder import second_encoder
from utils.evaluation.settings import EvaluateConfig
from utils.hardware.processor import cpu
from utils.inference.engine import Synthesizer
from utils.inference.export import export_model
from utils.model.weights import DECODER_PREFIX, part, write_pickle
from utils.model.xtts import full_state
from utils.project.paths import open_project
from utils.runs.layout import find_run
from utils.training.train import fine_tune

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results" / "voices.json"
OTHER = "other_wer"
"""Word error rate by Whisper base; the leading one is by tiny.en."""
FIGURES = ("wer", "cer", OTHER, "run_on", "early_stop", "cosine", "spectrum", "duration_ratio")
SECOND = "second_cosine"
MODELS = ("base", "best", "ready", "stock")
STOCK_RATE, STOCK_BATCH = 5e-6, 3
"""Learning rate and batch size of stock's recipe for fine-tuning XTTS v2 (coqui-tts, recipes/ljspeech/xtts_v2)."""
MINUTES_EVALUATED = 0.1
"""More of the recordings, as a share, for evaluation clips."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    sentences: Path = ROOT / "sentences.txt"
    """Sentences to speak, one a line."""
    num_sentences: int = 100
    """How many of them at most."""
    recordings: tuple[Path, ...] = ()
    """Folders of one voice each, with metadata.csv; a cell is named after its folder."""
    minutes: tuple[int, ...] = (3, 10)
    """Of speech, for training; of recordings shorter than nine tenths of it, all in the first cell alone."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Of training, decoder and speech."""
    stock: bool = True
    """Train stock's recipe as well."""
    work: Path = Path("~/.cache/xtts-finetuning-studio/voices")
    """Folder for datasets, runs and the result of each cell; what is there is not done again."""
    out: Path = RESULTS
    """Results file."""
    add: bool = False
    """Add cells to the record that is there, and keep its own."""
    picture: Path | None = None
    """Draw the results file's cells here, and measure nothing."""
    cell: str = ""
    """Do one cell, voice/minutes/seed, in this process; used by the benchmark itself."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    work = settings.work.expanduser()
    if settings.picture is not None:
        draw(json.loads(settings.out.read_text(encoding="utf-8"))["cells"], settings.picture)
        return
    if settings.cell:
        asked_voice, asked_minutes, asked_seed = settings.cell.split("/")
        do_cell(settings, work, asked_voice, int(asked_minutes), int(asked_seed))
        return
    sentences = settings.sentences.read_text(encoding="utf-8").splitlines()[: settings.num_sentences]
    cells = earlier(settings.out, sentences) if settings.add else {}
    # All sizes of one seed first: a table of one seed is there after a third of the time.
    for seed, minutes, recordings in product(settings.seeds, settings.minutes, settings.recordings):
        if minutes > settings.minutes[0] and sum(seconds for *_, seconds in read_rows(recordings)) < 54 * minutes:
            continue
        name = f"{recordings.name}/{minutes}/{seed}"
        result = work / name / "cell.json"
        if name in cells:
            continue
        if not result.is_file():
            command = [sys.executable, "-m", "benchmarks.voices", *sys.argv[1:], f"--cell={name}"]
            subprocess.run(command, cwd=ROOT.parent, check=True)
        cells[name] = json.loads(result.read_text(encoding="utf-8"))
        record = {
            "benchmark": "voices",
            "torch": torch.__version__,
            "sentences": sentences,
            "cells": cells,
        }
        settings.out.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")
        print(table(cells), flush=True)


def earlier(path: Path, sentences: list[str]) -> dict[str, Any]:
    """The cells of a record.

    Raises:
        SystemExit: they were measured with other sentences.
    """
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["sentences"] != sentences:
        raise SystemExit(f"{path} was measured with other sentences: leave --add away, or name another --out")
    return dict(record["cells"])


def do_cell(settings: Settings, work: Path, name: str, minutes: int, seed: int) -> None:
    """Prepare, train, export and measure one voice; writes cell.json."""
    (whole,) = (folder for folder in settings.recordings if folder.name == name)
    folder = work / name / str(minutes) / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    recordings = _first_minutes(whole, folder / "recordings", minutes)
    prepare(PrepareConfig(project="voice", input=recordings, language="en", output=folder, base="starter"))
    began = time.monotonic()
    trained = fine_tune(TrainConfig(project="voice", output=folder, seed=seed), project=open_project("voice", folder))
    train_s = time.monotonic() - began
    export_model(ExportConfig(project="voice", output=folder))
    export_s = time.monotonic() - began - train_s
    common: dict[str, Any] = {
        "sentences": settings.sentences,
        "num_sentences": settings.num_sentences,
        "seed": seed,
    }
    found = evaluate(EvaluateConfig(project="voice", output=folder, checkpoint="base,best,ready", **common))
    models = summaries(found)
    run = find_run(open_project("voice", folder), trained.folder.name)
    if settings.stock:
        _train_stock(folder, run, seconds=train_s, seed=seed)
        reference = run / "reference.wav"
        stock = EvaluateConfig(
            model=str(folder / "stock"), reference=reference, language="en", out=folder / "said_by_stock", **common
        )
        (models["stock"],) = summaries(evaluate(stock)).values()
    cell = {
        "processor": cpu().model,
        "train_s": round(train_s, 1),
        "export_s": round(export_s, 1),
        "steps": trained.num_steps,
        "eval_loss": trained.best_loss,
        "cosine_of_recordings": cosine_of_recordings(folder, run, embedder(Synthesizer(find_base("starter")))),
        "second_cosine_of_recordings": cosine_of_recordings(folder, run, second_encoder()),
        "models": {
            model: {figure: values[figure] for figure in (*FIGURES, SECOND)} for model, values in models.items()
        },
    }
    (folder / "cell.json").write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")


def summaries(found: Evaluation) -> dict[str, dict[str, Any]]:
    """Each model's figures, with the word error rate by the other recognizer."""
    recognizer = find_recognizer("base", "en")

    def other(model: ModelScores) -> float:
        said = ((load_audio(found.folder / one.wav, RATE), one.text) for one in model.scores)
        return error_rates([recognizer.recognize(wav, text) for wav, text in said])["wer"]

    return {model.name: model.summary | {OTHER: other(model)} for model in found.models}


def cosine_of_recordings(folder: Path, run: Path, embed: Embed) -> float:
    """Mean similarity of the evaluation clips, which no model was trained on, to the run's reference recording."""
    own = embed(load_audio(run / "reference.wav", RATE))
    clips = read_manifest(open_project("voice", folder).eval_csv)
    return statistics.fmean(float(embed(load_audio(clip.audio, RATE)) @ own) for clip in clips)


def table(cells: dict[str, Any]) -> str:
    """Means over voices and seeds, a row a size and model."""
    head = ["minutes", "model", *FIGURES, "of the way", SECOND, "of the way", "cells"]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for minutes in dict.fromkeys(name.split("/")[1] for name in cells):
        chosen = [cell for name, cell in cells.items() if name.split("/")[1] == minutes]
        for model in MODELS:
            rows = [cell["models"][model] for cell in chosen if model in cell["models"]]
            if not rows:
                continue
            means = [statistics.fmean(row[figure] for row in rows) for figure in FIGURES]
            second = statistics.fmean(row[SECOND] for row in rows)
            values = [*means, of_the_way(chosen, model, "cosine"), second, of_the_way(chosen, model, SECOND)]
            cells_of_row = [f"{value:.3f}" for value in values] + [str(len(rows))]
            lines.append(f"| {minutes} | {model} | {' | '.join(cells_of_row)} |")
    return "\n".join(lines)


def of_the_way(cells: list[dict[str, Any]], model: str, figure: str) -> float:
    """Mean share of the way from the base's similarity to that of the voice's own recordings."""
    shares = [
        (models[model][figure] - models["base"][figure]) / (cell[f"{figure}_of_recordings"] - models["base"][figure])
        for cell in cells
        if model in (models := cell["models"])
    ]
    return statistics.fmean(shares)


def draw(cells: dict[str, Any], path: Path) -> None:
    """Words, endings and voice by minutes of speech: a line a model through the means, a dot a cell."""
    from matplotlib.figure import Figure
    from PIL import Image

    titles = {
        "wer": "words misread by Whisper tiny.en",
        "wrong_end": "talks on or stops early, at most",
        SECOND: "similarity (second encoder)",
    }
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    minutes = sorted({int(name.split("/")[1]) for name in cells})
    for (value, title), axes in zip(titles.items(), figure.subplots(1, len(titles)), strict=True):
        for model in MODELS:
            points = [
                (int(name.split("/")[1]), _value(cell["models"][model], value))
                for name, cell in cells.items()
                if model in cell["models"]
            ]
            means = [statistics.fmean(y for x, y in points if x == one) for one in minutes]
            (line,) = axes.plot(minutes, means, label=model)
            axes.plot(*zip(*points, strict=True), ".", color=line.get_color(), alpha=0.5)
        axes.set(title=title, xlabel="minutes of speech", xticks=minutes)
    axes.legend()
    figure.savefig(path, dpi=100)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _value(scores: dict[str, float], name: str) -> float:
    # One sentence may do both.
    return scores["run_on"] + scores["early_stop"] if name == "wrong_end" else scores[name]


def read_rows(folder: Path) -> Iterator[tuple[Path, str, float]]:
    """Recordings, texts and seconds of a folder whose metadata.csv has a name, `|` and a text in each line."""
    for line in (folder / "metadata.csv").read_text(encoding="utf-8").splitlines():
        name, text, *_ = line.split("|")
        path = next((folder / "wavs").glob(f"{name}.*"))
        yield path, text, soundfile.info(path).duration


def _first_minutes(whole: Path, target: Path, minutes: int) -> Path:
    """The first minutes of recordings, and a tenth more for evaluation, as a folder of its own."""
    (target / "wavs").mkdir(parents=True)
    lines, chosen_s = list[str](), 0.0
    for path, text, seconds in read_rows(whole):
        if chosen_s >= 60 * minutes * (1 + MINUTES_EVALUATED):
            break
        shutil.copy(path, target / "wavs")
        lines.append(f"{path.stem}|{text}\n")
        chosen_s += seconds
    (target / "metadata.csv").write_text("".join(lines), encoding="utf-8")
    return target


def _train_stock(folder: Path, run: Path, *, seconds: float, seed: int) -> None:
    """Stock's recipe for as long as ours trained, in folder/stock as a model with the base's own decoder."""
    from benchmarks.stock import stock_steps

    base = find_base("starter")
    state = base.state()
    start = part(state, "gpt.")
    steps = stock_steps(
        base.folder,
        open_project("voice", folder),
        start=start,
        learning_rate=STOCK_RATE,
        batch_size=STOCK_BATCH,
        seed=seed,
    )
    began = time.monotonic()
    gpt = next(steps)
    while time.monotonic() - began < seconds:
        gpt = next(steps)
    target = folder / "stock"
    target.mkdir()
    for name in ("config.json", "vocab.json", "speakers_xtts.pth", "mel_stats.pth", "dvae.safetensors"):
        shutil.copyfile(base.folder / name, target / name)
    # Its list of files is the base's own, whose weights are another file.
    about = {key: value for key, value in base.about.items() if key != "files"}
    (target / "about.json").write_text(json.dumps(about), encoding="utf-8")
    weights = full_state(gpt.state_dict(), part(state, DECODER_PREFIX), base.mel_stats())
    write_pickle(target / "model.pth", {"model": weights})


if __name__ == "__main__":
    main()
