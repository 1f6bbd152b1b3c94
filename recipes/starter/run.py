"""The starter recipe: `python -m recipes.starter.run --work FOLDER --stages corpus dvae codes`; each stage resumes."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import tyro

from recipes.starter import codec, codes, corpus, gpt, latents, package, quality, speakers, vocoder

Stage = Literal["corpus", "dvae", "codes", "gpt", "speaker", "latents", "decoder", "package", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """Make the starter base from nothing but this repository and espeak-ng."""

    work: Path = Path("~/.cache/xtts-finetuning-studio/starter")
    """Folder for the corpus, checkpoints and reports (several GB)."""
    stages: tuple[Stage, ...] = get_args(Stage)
    """Which stages, in this order."""


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
    for stage in config.stages:
        RUN[stage](config.work.expanduser())


if __name__ == "__main__":
    main()
