"""The starter recipe: `python -m recipes.starter.run --work FOLDER --stages corpus dvae codes`; each stage resumes."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from recipes.starter import codec, codes, corpus, speakers

Stage = Literal["corpus", "dvae", "codes", "speaker"]


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """Make the starter base from nothing but this repository and espeak-ng."""

    work: Path = Path("~/.cache/xtts-finetuning-studio/starter")
    """Folder for the corpus, checkpoints and reports (several GB)."""
    stages: tuple[Stage, ...] = ("corpus", "dvae", "codes", "speaker")
    """Which stages, in this order."""


RUN = {"corpus": corpus.run, "dvae": codec.run, "codes": codes.run, "speaker": speakers.run}


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    config = tyro.cli(RecipeConfig)
    for stage in config.stages:
        RUN[stage](config.work.expanduser())


if __name__ == "__main__":
    main()
