"""Start from a model of another program: its weight file means its folder, and a base gives the parts that it lacks."""

import hashlib
import json
import shutil
from pathlib import Path

from utils.bases.base import Base
from utils.bases.download import fetched_base
from utils.bases.grow import INHERITED
from utils.errors import UserError, disk_errors
from utils.files import new_folder, share_file

PARTS = ("config.json", "vocab.json", "speakers_xtts.pth", "mel_stats.pth", "reference.wav", "dvae.pth")


@disk_errors()
def whole_model(model: str, version: str, home: Path, *, accept_license: bool = False) -> tuple[str, list[str]]:
    """A model that training can start from, and what of it is from another base.

    Args:
        model: a name, a folder, or the file of a model's weights in its folder.
        version: the base that has what the folder lacks.
        home: gets a folder with both, where something is missing; it shares the weights' file where the disk can.
        accept_license: see `fetched_base`.

    Raises:
        UserError: something is missing and there is no such base, or the disk is full.
    """
    given = Path(model).expanduser()
    folder = given.parent if given.is_file() else given
    names = (given.name,) if given.is_file() else ("model.safetensors", "model.pth")
    weights = next((folder / name for name in names if (folder / name).is_file()), None)
    if weights is None or (weights.stem == "model" and _is_whole(folder)):
        return str(folder if given.is_file() else model), []
    base = fetched_base(version, accept_license=accept_license)
    facts = f"{weights.absolute()} {weights.stat().st_size} {weights.stat().st_mtime_ns} {base.folder.absolute()}"
    place = home / f"base-custom-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
    missing = [name for name in PARTS if not (folder / name).is_file() and (base.folder / name).is_file()]
    if not (folder / "dvae.pth").is_file() and not (folder / "dvae.safetensors").is_file():
        missing = [*(name for name in missing if name != "dvae.pth"), "dvae"]
    if not place.is_dir():
        own = Base(folder).about or base.about
        about = {name: own[name] for name in (*INHERITED, "language") if name in own}
        about |= {"name": folder.name, "base": base.as_origin(place) | {"folder": str(base.folder.absolute())}}
        with new_folder(place) as aside:
            share_file(weights, aside / f"model{weights.suffix}")
            for name in (*PARTS, "dvae.safetensors"):
                source = folder if (folder / name).is_file() else base.folder
                if (source / name).is_file() and (source == folder or not name.startswith("dvae")):
                    shutil.copyfile(source / name, aside / name)
            (aside / "about.json").write_text(json.dumps({**about, "license": base.license}), encoding="utf-8")
    return str(place), missing


def _is_whole(folder: Path) -> bool:
    """Whether training finds all in the folder, or in the base that its about.json names."""
    try:
        _ = Base(folder).dvae
    except UserError:
        return False
    return (folder / "config.json").is_file() and (folder / "vocab.json").is_file()
