"""The starter recipe: `python -m recipes.starter.run --work FOLDER --stages corpus dvae codes`; each stage resumes."""

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import tyro

from recipes.starter import codec, codes, corpus, gpt, latents, package, quality, speakers, vocoder
from utils.bases.find import find_base
from utils.errors import UserError
from utils.hardware.environment import keep_freed_memory
from utils.model.weights import part, write_weights
from utils.model.xtts import SPEAKER_PREFIX

Stage = Literal["corpus", "dvae", "codes", "gpt", "speaker", "latents", "decoder", "package", "evaluate"]

FINISHED = ("dvae", "speaker")
"""Stages whose results lie in the starter that ships, and need not be trained again."""


@dataclass(frozen=True, kw_only=True)
class RecipeConfig:
    """Make the starter base from nothing but this repository and espeak-ng."""

    work: Path = Path("~/.cache/xtts-finetuning-studio/starter")
    """Folder for the corpus, checkpoints and reports (about 20 GB)."""
    stages: tuple[Stage, ...] = get_args(Stage)
    """Which stages, in this order."""
    from_nothing: bool = False
    """Train DVAE and speaker encoder anew, instead of taking those of the starter that ships."""
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
    """Take a stage's result from assets/starter, if it holds one and the work folder has none of its own."""
    folder = work / stage
    if stage not in FINISHED or (folder / "quality.json").is_file():
        return False
    starter = find_base("starter")
    # What depends on a part must not meet another one: half-trained files of this stage make way.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if stage == "dvae":
        for name in ("dvae.safetensors", "mel_stats.pth"):
            shutil.copyfile(starter.folder / name, folder / name)
    else:
        write_weights(folder / "speaker.safetensors", part(starter.state(), SPEAKER_PREFIX))
    quality = starter.about["quality"][stage]
    (folder / "quality.json").write_text(json.dumps(quality, indent=2), encoding="utf-8")
    logging.info("%s: taken from %s", stage, starter.folder)
    return True


if __name__ == "__main__":
    main()
