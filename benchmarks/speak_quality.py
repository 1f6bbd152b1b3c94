"""Whether 16-bit and 8-bit weights speak as well as float32: python -m benchmarks.speak_quality.

The starter says sentences in each precision and with each seed; words, endings and voice are measured as in any
evaluation, on sentences made for this. Then, at full size with random weights, greedy codes are compared one by
one. Writes benchmarks/results/speak_quality.json.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any, get_args

import torch

from benchmarks.full_base import make_base
from benchmarks.speak import never_stop, random_voice
from utils.bases.base import Base
from utils.bases.loading import load_gpt
from utils.evaluation.evaluate import evaluate
from utils.evaluation.settings import EvaluateConfig
from utils.hardware.processor import cpu
from utils.inference.decode import Decoder, Sentence
from utils.model.gpt import ForwardOptions
from utils.options import SpeechPrecision, SpeechSettings

RESULTS = Path(__file__).parent / "results" / "speak_quality.json"
PRECISIONS = tuple(name for name in get_args(SpeechPrecision) if name != "auto")
SEEDS = (1, 2, 3)
CODES = 60
FIGURES = ("near_miss", "cosine", "run_on", "early_stop", "flawless")
OPENINGS = ("The gardener", "My cousin", "A tall sailor", "The new teacher", "Nobody here")
ACTS = (
    "found a silver button under the table",
    "waited an hour for the evening train",
    "painted the kitchen door dark green",
    "remembers the name of that little shop",
    "keeps three grey rabbits behind the barn",
    "sold the broken clock to a neighbor",
    "carried the heavy basket up the hill",
    "wrote a letter to the mayor about it",
    "slept through most of the thunder",
    "grows pumpkins and beans in the valley",
)


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--sentences", type=int, default=len(OPENINGS) * len(ACTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {"processor": cpu().model, "torch": torch.__version__, "seeds": SEEDS}
    record["starter"] = starter(options.sentences)
    record["full size"] = codes()
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(table(record))


def starter(num_sentences: int) -> dict[str, dict[str, list[float | None]]]:
    """Figures of the starter by precision, one a seed."""
    found: dict[str, dict[str, list[float | None]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "lines.txt"
        texts = [f"{who} {what}." for what in ACTS for who in OPENINGS]
        lines.write_text("\n".join(texts), encoding="utf-8")
        for precision in PRECISIONS:
            rows = []
            for seed in SEEDS:
                config = EvaluateConfig(
                    model="starter",
                    sentences=lines,
                    num_sentences=num_sentences,
                    precision=precision,
                    seed=seed,
                    out=Path(scratch) / f"{precision}-{seed}",
                )
                (model,) = evaluate(config).models
                rows.append(model.summary)
                print(precision, seed, rows[-1], flush=True)
            found[precision] = {name: [row[name] for row in rows] for name in FIGURES}
    return found


@torch.inference_mode()
def codes() -> dict[str, dict[str, float]]:
    """Share of greedy codes that are float32's until the first other one, and how far the hidden states are off."""
    with tempfile.TemporaryDirectory() as scratch:
        base = Base(make_base(Path(scratch) / "base", "full"))
        gpt = load_gpt(base, ForwardOptions(sdpa=True)).eval().requires_grad_(False)
        tokens = base.tokenizer().encode("The gardener found a silver button under the table.", "en")
    never_stop(gpt.mel_head)
    said = {}
    for precision in PRECISIONS:
        decoder = Decoder(gpt, precision=precision)
        sentence = Sentence(
            latents=random_voice(torch.device("cpu")).latents,
            tokens=tokens,
            settings=SpeechSettings(temperature=0),
            limit=CODES,
        )
        decoder.join(sentence)
        while decoder.sentences:
            decoder.step()
        said[precision] = (sentence.codes, decoder.hidden(sentence))
    reference, hidden = said["fp32"]
    found = {}
    for precision, (row, states) in said.items():
        same = next((place for place in range(CODES) if row[place] != reference[place]), CODES)
        error = (states[:same] - hidden[:same]).norm() / hidden[:same].norm() if same else torch.tensor(1.0)
        found[precision] = {"codes": same / CODES, "error": float(error)}
    return found


def table(record: dict[str, Any]) -> str:
    """For people."""
    head = ["precision", *FIGURES, f"codes of {CODES}", "error of hidden states"]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for precision, figures in record["starter"].items():
        cells = []
        for name in FIGURES:
            values = [value for value in figures[name] if value is not None]
            cells.append(f"{statistics.fmean(values):.3g} ({min(values):.3g}..{max(values):.3g})" if values else "")
        full = record["full size"][precision]
        lines.append(f"| {precision} | {' | '.join(cells)} | {full['codes'] * CODES:.0f} | {full['error']:.1e} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
