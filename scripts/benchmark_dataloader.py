"""Measure how long training waits for batches, under a published guide's name for it.

python scripts/benchmark_dataloader.py --data-dir output/maria/dataset --batch-size 8 --num-workers 2
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--data-dir", type=Path, required=True, help="a project's dataset folder")
    known, flags = parser.parse_known_args()
    project = known.data_dir.absolute().parent
    measure = [sys.executable, str(Path(__file__).with_name("benchmark_training.py"))]
    raise SystemExit(subprocess.call([*measure, "--project", project.name, "--output", str(project.parent), *flags]))


if __name__ == "__main__":
    main()
