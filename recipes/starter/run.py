"""The starter recipe: `python -m recipes.starter.run --work FOLDER --stages corpus dvae codes`; each stage resumes."""

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import tyro

from recipes.starter import codec, codes, corpus, gpt, latents, package, quality, speakers, vocoder
from utils.errors import UserError
from utils.hardware import keep_freed_memory

Stage = Literal["corpus", "dvae", "codes", "gpt", "speaker", "latents", "decoder", "package", "evaluate"]

FINISHED = Path(__file__).with_name("finished")
"""Results of stages that need not be trained again: a folder for each, named like the stage."""


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """Make the starter base from nothing but this repository and espeak-ng."""

    work: Path = Path("~/.cache/xtts-finetuning-studio/starter")
    """Folder for the corpus, checkpoints and reports (about 20 GB)."""
    stages: tuple[Stage, ...] = get_args(Stage)
    """Which stages, in this order."""
    from_nothing: bool = False
    """Train the parts anew that the repository keeps finished."""
    begin_with: Path | None = None
    """A base of the starter's shape, such as assets/starter, whose GPT a new work folder trains on; from random weights
    when not given."""


RUN: dict[Stage, Callable[[Path], None]] = {
    "corpus": corpus.run,
    "dvae": codec.run,
    "codes": codes.run,
    "gpt": gpt.run,
    "speaker": speakers.run,
    "latents": latents.run,
    "decoder": vocoder.run,
    "package": package.run,
    "evaluate": quality.run,
}


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    config = tyro.cli(RecipeConfig)
    work = config.work.expanduser()
    keep_freed_memory()
    stages = RUN | {"gpt": partial(gpt.run, begin_with=config.begin_with)}
    try:
        for stage in config.stages:
            if config.from_nothing or not take_finished(stage, work):
                stages[stage](work)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


def take_finished(stage: Stage, work: Path) -> bool:
    """Copy a stage's result from the repository, if it keeps one and the work folder has none of its own."""
    kept, folder = FINISHED / stage, work / stage
    if not kept.is_dir() or (folder / "quality.json").is_file():
        return False
    # What depends on a part must not meet another one: half-trained files of this stage make way.
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder)
    logging.info("%s: taken from %s", stage, kept)
    return True


if __name__ == "__main__":
    main()
