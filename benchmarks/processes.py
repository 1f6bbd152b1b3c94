"""What processes share before and beside training: torchrun --nproc-per-node N -m benchmarks.processes FOLDER.

Prints for each process the seconds of clock and of processor time that encoding and evaluation took. On a machine that
does other work too, compare processor time: that of one process with that of the busiest of several.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from accelerate import Accelerator

from tests.sounds import make_project
from utils.config import TrainConfig
from utils.project.paths import Project
from utils.training.data.load import load_data
from utils.training.plan import plan_run
from utils.training.switches.optim import make_accelerator
from utils.training.train import set_up

NUM_TRAIN, NUM_EVAL = 640, 160


@contextmanager
def timed(what: str, accelerator: Accelerator) -> Iterator[None]:
    accelerator.wait_for_everyone()
    clock, processor = time.perf_counter(), time.process_time()
    yield
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    # In one write: processes print beside each other.
    sys.stdout.write(f"{what} {accelerator.process_index}: {clock:.2f} s, {processor:.2f} s of processor time\n")


def main(folder: Path) -> None:
    accelerator = make_accelerator("cpu")
    torch.set_num_threads(1)
    if accelerator.is_main_process:
        make_project(folder, num_train=NUM_TRAIN, num_eval=NUM_EVAL)
    accelerator.wait_for_everyone()
    project = Project(name="voice", output=folder)
    plan = plan_run(
        TrainConfig(project=project.name, output=folder, base="starter", device="cpu", threads=1, num_workers=0)
    )
    with timed("encode", accelerator):
        load_data(plan.config, plan.project, plan.base, accelerator)
    _, trainer, loaders = set_up(plan)
    with timed("evaluate", accelerator):
        losses = trainer.evaluate(loaders.evaluation)
    loaders.close()
    sys.stdout.write(f"loss {accelerator.process_index}: {losses.total:.9f}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
