"""Measure steps of a run, under a published guide's name for it.

    python scripts/benchmark_training.py --config output/maria/runs/RUN/config.yaml --steps 100

Flags of `python -m utils.cli.train` override the file. Nothing is trained that is kept.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from utils.cli.common import error_exits, run_command
from utils.cli.train import TrainCommand
from utils.config import TrainConfig
from utils.errors import UserError
from utils.spellings import translate_words
from utils.training.preflight import measure_apart

WARMUP = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=20, help="steps that are counted, after a few that are not")
    known, flags = parser.parse_known_args()
    with error_exits():
        if known.steps < 1:
            raise UserError(what=f"--steps is {known.steps}", where="command line", fix="use 1 or more")
        words, _ = translate_words(flags)
    run_command(TrainCommand, partial(_measure, steps=known.steps), __doc__, words)


def _measure(command: TrainCommand, steps: int) -> None:
    seen = measure_apart(command.settings_of(TrainConfig), warmup=WARMUP, steps=steps)
    if seen.fault:
        raise UserError(what=seen.fault, where=command.project)
    print(f"{seen.steps} steps, {seen.step_s:.3f} s a step (median), {seen.audio_per_second:.2f} s of speech a second")
    print(f"{seen.data_share:.1%} of the time spent waiting for batches, {seen.peak_bytes / 1e9:.2f} GB at most")


if __name__ == "__main__":
    main()
