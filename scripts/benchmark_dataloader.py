"""Measure how long training waits for batches, under a published guide's name for it.

python scripts/benchmark_dataloader.py --data-dir output/maria/dataset --batch-size 8 --num-workers 2
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from utils.cli.common import error_exits
from utils.errors import UserError
from utils.project.paths import Project


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--data-dir", type=Path, required=True, help="a project's dataset folder")
    known, flags = parser.parse_known_args()
    folder = known.data_dir.absolute()
    project = Project(name=folder.parent.name, output=folder.parent.parent)
    with error_exits():
        if not folder.is_dir():
            raise UserError(what="the folder of --data-dir does not exist", where=str(folder), fix="correct its path")
        if folder != project.dataset or not project.train_csv.is_file():
            fix = "name the dataset folder of a prepared project, such as output/maria/dataset"
            raise UserError(what="the folder of --data-dir is no prepared dataset", where=str(folder), fix=fix)
    measure = [sys.executable, str(Path(__file__).with_name("benchmark_training.py"))]
    raise SystemExit(subprocess.call([*measure, "--project", project.name, "--output", str(project.output), *flags]))


if __name__ == "__main__":
    main()
