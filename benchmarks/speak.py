"""Measure speaking beside stock coqui-tts at full size: one stream, long text, clients, first sound, memory.

python -m benchmarks.speak --device cpu writes benchmarks/results/speak_cpu.json and prints the table; it exits with 1
when a target of this device is missed. Every row is a process of its own. Rounds alternate the order of the rows
(ours, stock, stock, ours), so that a machine that slows down does not choose the winner.

Weights are random and the stop code is forbidden, so that ours and stock speak the same number of codes.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.full_base import make_base
from utils.bases.base import Base
from utils.bases.loading import load_gpt
from utils.hardware.environment import child_environment
from utils.inference.batch import Piece, SpeechBatch, Utterance, derived_seed
from utils.inference.products import vocoder_in_bf16
from utils.inference.vocoder import Vocoder
from utils.model.decoder.build import build_decoder
from utils.model.gpt import ForwardOptions
from utils.model.shapes import DecoderShape
from utils.model.voices import Voice
from utils.options import OUTPUT_RATE, SpeechPrecision, SpeechSettings
from utils.performance_utils import log_system_info

RESULTS = Path(__file__).parent / "results"
TEXT = "A letter from my grandmother arrived on Tuesday, with a photograph of the old house."
CODES = 60
"""Of each sentence: 2.8 seconds."""
LONG_TEXT = 8
"""Sentences of the long text; stock, which speaks one after the other, speaks the first two of them."""
ROUNDS = 2
REPEATS = {"cpu": 1, "cuda": 5}
"""Times that a process speaks; the median counts."""
TARGETS = {
    "cpu": {"one stream, 16 bit": 2.5, "one stream, 8 bit": 4.0, "long text, 8 bit": 5.0, "first sound": 4.0},
    "cuda": {"one stream, 16 bit": 8.0, "first sound": 4.0},
}
"""Least ratio of stock's time to ours."""


@dataclass(kw_only=True)
class Row:
    """What one process measured."""

    name: str
    clock_s: float = 0.0
    cpu_s: float = 0.0
    speech_s: float = 0.0
    first_sound_s: list[float] = field(default_factory=list)
    """Of each client, from its request to its first samples."""
    peak_gb: float = 0.0
    steps: dict[int, int] = field(default_factory=dict)
    """Of ours: steps by the number of sentences side by side."""
    products: str = ""


def main() -> None:
    """Measure all rows, or one of them for the parent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=("full", "small"), default="full")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=(), help="rows whose names begin so")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--base", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(asdict(measure(options.row, options.base, options.device))))
        return
    rows = _all_rows(options)
    record = _record(options, rows)
    out = options.out or RESULTS / f"speak_{options.device}.json"
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(_table(record))
    sys.exit(bool(record["missed"]))


def names(device: str) -> list[str]:
    """Rows by name: who, what, precision and threads."""
    ours = ("fp32", "fp16", "int8") if device == "cpu" else ("fp32", "bf16")
    fast = "int8" if device == "cpu" else "bf16"
    return [
        *(f"ours {precision} single" for precision in ours),
        "stock single",
        "stock all-threads single",
        *(f"ours {precision} long" for precision in ours if precision != "fp32"),
        "stock long",
        *(f"ours {precision} stream" for precision in ours if precision != "fp32"),
        "stock stream",
        *(f"ours {fast} clients-{count}" for count in (1, 4, 8, 32)),
    ]


def measure(name: str, folder: Path, device: str) -> Row:
    """One row, in this process."""
    who, *how, what = name.split()
    if device == "cpu":
        torch.set_num_threads(len(os.sched_getaffinity(0)) if "all-threads" in how else 1)
    row = Row(name=name)
    speak = _stock(folder, device, what) if who == "stock" else _ours(folder, device, what, how[0], row)  # type: ignore[arg-type]
    # A GPU loads a kernel when it is first called, which must be of the length that is measured.
    speak(CODES if device == "cuda" else 4, [])
    times = list[tuple[float, float]]()
    for _ in range(REPEATS[device]):
        clock, cpu = time.perf_counter(), time.process_time()
        samples = speak(CODES, row.first_sound_s)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - clock, time.process_time() - cpu))
    row.clock_s, row.cpu_s = map(statistics.median, zip(*times, strict=True))
    row.speech_s = samples / OUTPUT_RATE
    row.peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if device == "cuda":
        row.peak_gb = torch.cuda.max_memory_allocated() / 2**30
    return row


Speak = Callable[[int, list[float]], int]
"""Speaks this many codes a sentence, adds the times of first sounds, and gives the number of samples."""


def _ours(folder: Path, device: str, what: str, precision: SpeechPrecision, row: Row) -> Speak:
    where = torch.device(device)
    base = Base(folder)
    gpt = load_gpt(base, ForwardOptions(sdpa=True)).eval().requires_grad_(False).to(where)
    never_stop(gpt.mel_head)
    bf16 = vocoder_in_bf16(precision, where)
    vocoder = Vocoder(_decoder(gpt.shape.width).to(where), bf16=bf16)
    count = {"long": LONG_TEXT, "single": 1, "stream": 1}.get(what) or int(what.split("-")[1])
    batch = SpeechBatch(gpt, vocoder, slots=min(count, 32), precision=precision)
    row.products = f"GPT {precision}, decoder {'bf16' if bf16 else 'fp32'}"
    tokens = base.tokenizer().encode(TEXT, "en")
    voice = random_voice(where, gpt.shape.width)

    def speak(codes: int, first: list[float]) -> int:
        begun, first_s = time.perf_counter(), [0.0] * count
        batch.steps.clear()

        def on_chunk(number: int) -> Callable[[Any], None]:
            def listen(wav: Any) -> None:
                first_s[number] = first_s[number] or time.perf_counter() - begun

            return listen

        utterances = [
            Utterance(
                piece=Piece(TEXT, tokens),
                voice=voice,
                settings=SpeechSettings(),
                seed=derived_seed(1, number),
                guard=False,
                max_codes=codes,
                on_chunk=on_chunk(number) if what not in ("single", "long") else None,
            )
            for number in range(count)
        ]
        for utterance in utterances:
            batch.add(utterance)
        while not batch.is_idle:
            batch.step()
        first += [seconds for seconds in first_s if seconds]
        row.steps.update(batch.steps)
        return sum(one.spoken.wav.size(1) for one in utterances if one.spoken)

    return speak


def _stock(folder: Path, device: str, what: str) -> Speak:
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models.xtts import Xtts

    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    model = Xtts(config)
    threads = torch.get_num_threads()
    model.load_checkpoint(config, checkpoint_path=str(folder / "stock.pth"), vocab_path=str(folder / "vocab.json"))
    torch.set_num_threads(threads)
    model.hifigan_decoder.eval()
    model.to(device)
    never_stop(model.gpt.mel_head)
    voice = random_voice(torch.device(device), config.model_args.gpt_n_model_channels)
    given = {"gpt_cond_latent": voice.latents, "speaker_embedding": voice.embedding}

    def speak(codes: int, first: list[float]) -> int:
        model.gpt.max_gen_mel_tokens = codes
        begun, samples = time.perf_counter(), 0
        if what == "stream":
            for chunk in model.inference_stream(TEXT, "en", **given):
                if not samples:
                    first.append(time.perf_counter() - begun)
                samples += chunk.numel()
            return samples
        for _ in range(2 if what == "long" else 1):
            samples += len(model.inference(TEXT, "en", **given)["wav"])
        return samples

    return speak


def never_stop(head: torch.nn.Linear) -> None:
    with torch.no_grad():
        head.bias[1025] = -1e4


def _decoder(width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return build_decoder(DecoderShape(latent_width=width)).eval().requires_grad_(False)


def random_voice(device: torch.device, width: int = 1024) -> Voice:
    random = torch.Generator().manual_seed(0)
    latents, embedding = torch.randn(1, 32, width, generator=random), torch.randn(1, 512, 1, generator=random)
    return Voice(latents=latents, embedding=embedding).to(device)


def _all_rows(options: argparse.Namespace) -> dict[str, list[Row]]:
    wanted = [name for name in names(options.device) if not options.only or name.startswith(tuple(options.only))]
    rows: dict[str, list[Row]] = {name: [] for name in wanted}
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_base(Path(scratch) / "base", options.size)
        _write_stock(folder)
        for turn in range(options.rounds):
            for name in wanted if turn % 2 == 0 else reversed(wanted):
                flags = ["--row", name, "--base", str(folder), "--device", options.device]
                command = [sys.executable, "-m", "benchmarks.speak", *flags]
                child = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=False)
                if child.returncode:
                    raise SystemExit(f"{name}: {child.stderr[-2000:]}")
                values = json.loads(child.stdout.strip().splitlines()[-1])
                row = Row(**values)
                rows[name].append(row)
                print(f"{name}: {row.clock_s:.2f} s, processor {row.cpu_s:.2f} s", file=sys.stderr, flush=True)
    return rows


def _write_stock(folder: Path) -> None:
    """The same weights as stock's checkpoint, with the decoder."""
    from utils.model.weights import read_weights

    state = read_weights(folder / "model.safetensors")
    decoder = _decoder(Base(folder).gpt_shape().width)
    state |= {f"hifigan_decoder.{name}": value for name, value in decoder.state_dict().items()}
    torch.save({"model": state}, folder / "stock.pth")


def _record(options: argparse.Namespace, rows: dict[str, list[Row]]) -> dict[str, Any]:
    def median(name: str, per: Callable[[Row], float]) -> float:
        return statistics.median(map(per, rows[name]))

    def cost(name: str) -> float:
        """Processor (on a GPU: clock) seconds for a second of speech."""
        return median(name, lambda row: (row.cpu_s if options.device == "cpu" else row.clock_s) / row.speech_s)

    half, fast = ("fp16", "int8") if options.device == "cpu" else ("bf16", "bf16")
    ratios = {}
    for label, stock, ours in (
        ("one stream, 16 bit", "stock single", f"ours {half} single"),
        ("one stream, 8 bit", "stock single", f"ours {fast} single"),
        ("one stream, fp32", "stock single", "ours fp32 single"),
        ("long text, 16 bit", "stock long", f"ours {half} long"),
        ("long text, 8 bit", "stock long", f"ours {fast} long"),
    ):
        if stock in rows and ours in rows:
            ratios[label] = cost(stock) / cost(ours)
    if "stock stream" in rows:
        ours_first, theirs = (
            median(name, lambda row: statistics.median(row.first_sound_s))
            for name in (f"ours {fast} stream", "stock stream")
        )
        ratios["first sound"] = theirs / ours_first
    targets = TARGETS[options.device]
    return {
        "machine": log_system_info(),
        "torch": torch.__version__,
        "size": options.size,
        "rows": {name: [asdict(row) for row in found] for name, found in rows.items()},
        "ratios": ratios,
        "targets": targets,
        "missed": [name for name, least in targets.items() if name in ratios and ratios[name] < least],
    }


def _table(record: dict[str, Any]) -> str:
    lines = [
        "| row | clock s | processor s | speech s | first sound s | peak GB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, rows in record["rows"].items():
        first = [seconds for row in rows for seconds in row["first_sound_s"]]
        cells = [
            " / ".join(f"{row['clock_s']:.2f}" for row in rows),
            " / ".join(f"{row['cpu_s']:.2f}" for row in rows),
            f"{rows[0]['speech_s']:.1f}",
            f"{statistics.median(first):.2f} (most {max(first):.2f})" if first else "",
            f"{max(row['peak_gb'] for row in rows):.1f}",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| against stock | times | target |", "| --- | --- | --- |"]
    for name, ratio in record["ratios"].items():
        target = record["targets"].get(name)
        lines.append(f"| {name} | {ratio:.2f} | {'' if target is None else f'>= {target}'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
