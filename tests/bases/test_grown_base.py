"""A base grown from an embedded one is a base like any other: prepared for, trained, exported, spoken with, moved."""

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.bases.extend import add_language
from utils.bases.find import find_base, run_base
from utils.cli import export, language, prepare, synthesize, train
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.options import DATASET_RATE
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project
from utils.speech.models import find_model
from webui.handlers import data
from webui.handlers import language as panel
from webui.studio import Studio

ORIGIN = "starter"
TEXTS = ["გამარჯობა.", "როგორ ხარ?", "მე მიყვარს საქართველო."]


@dataclass(frozen=True)
class Grown:
    """A project with recordings, and the base that was made for their language."""

    project: Project
    recordings: Path
    corpus: Path
    said: str
    """What the command printed."""

    @property
    def base(self) -> Base:
        return find_base(str(self.project.folder / "base-ka"))

    def flags(self, *more: object) -> list[str]:
        return ["--project", self.project.name, "--output", str(self.project.output), *map(str, more)]


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Grown:
    folder = tmp_path_factory.mktemp("Голоса und mehr")
    project = create_project("мой-голос", folder / "output", ProjectSettings(language="ka", base=ORIGIN))
    recordings = folder / "recordings"
    for number, text in enumerate(TEXTS):
        recordings.mkdir(exist_ok=True)
        write_wav(recordings / f"{number}.wav", speech(1.2 + 0.2 * number, seed=number), DATASET_RATE)
        (recordings / f"{number}.txt").write_text(text, encoding="utf-8")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(TEXTS * 10), encoding="utf-8")
    place = ["--project", project.name, "--output", str(project.output), "--language", "ka", "--base", ORIGIN]
    with redirect_stdout(StringIO()) as said:
        language.main([*place, "--corpus", str(corpus), "--extend", "30"])
    return Grown(project, recordings, corpus, said.getvalue())


@pytest.fixture(scope="module")
def trained(grown) -> Iterator[Grown]:
    """Prepared as the printed command says, trained for one step, exported."""
    (line,) = [line for line in grown.said.splitlines() if line.startswith("next ")]
    words = shlex.split(line)
    assert words[1:4] == ["python", "-m", "utils.cli.prepare"] and words[-1] == "FOLDER"
    prepare.main([*words[4:-1], str(grown.recordings), "--workers", "1", "--no-quality"])
    base = ["--base", str(grown.base.folder)]
    train.main(grown.flags(*base, "--num-epochs", 1, "--sample-text", "", "--run-id", "one"))
    export.main(grown.flags("--decoder-steps", 0))
    yield grown


def test_it_prepares_trains_exports_and_speaks(trained, tmp_path):
    assert Report.load(trained.project.report).totals["used"] == len(TEXTS)
    for number, model in enumerate([trained.flags(), ["--model", str(trained.base.folder)]]):
        wav = tmp_path / f"{number}.wav"
        synthesize.main([*model, "--text", "გამარჯობა.", "--out", str(wav)])
        assert soundfile.info(wav).frames > 0
    assert find_model(trained.project, "base/base-ka").source == str(trained.base.folder.absolute())


def test_the_page_adopts_it_and_prepares_with_it(grown, monkeypatch):
    begun: list[Any] = []
    monkeypatch.setattr("utils.jobs.start", lambda kind, config: begun.append((kind, config)))
    studio = Studio(output=grown.project.output, input_roots=(grown.recordings,))
    name = {"project.project": grown.project.name, "project.language": "ka"}
    made = panel.adopt(studio, name)["project.base"]["value"]
    data.start(studio, {**name, "project.base": made, "data.folder": str(grown.recordings)})
    ((kind, config),) = begun
    assert (kind, config.base) == ("prepare", str(grown.project.folder / "base-ka"))
    assert find_base(config.base).tokenizer().unknown_characters(" ".join(TEXTS), "ka") == []


def test_it_inherits_what_holds_for_it_and_nothing_else(grown):
    origin, about = find_base(ORIGIN), grown.base.about
    assert (about["name"], about["kind"], about["language"]) == (f"{ORIGIN}-ka", "grown", "ka")
    assert grown.base.license == origin.license == "Apache-2.0"
    assert about.get("loads_in") == origin.about.get("loads_in")
    assert about["training"]["learning_rate"] == origin.about["training"]["learning_rate"]
    assert not {"quality", "recipe", "version", "description", "gpt_checkpoint"} & set(about)
    assert set(about["files"]) == {path.name for path in grown.base.folder.iterdir()} - {"about.json"}


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.json", "config.json"])
def test_a_damaged_one_is_refused_by_name(grown, name):
    file = grown.base.folder / name
    content = file.read_bytes()
    try:
        file.write_bytes(content[:-9] + b"?" + content[-8:])
        with pytest.raises(UserError, match=f"{name} is not the file that this base was made with") as caught:
            find_base(str(file.parent))
        assert "docs/languages.md" in caught.value.fix and "git" not in caught.value.fix
        file.unlink()
        with pytest.raises(UserError, match=rf"{name} is missing|no model"):
            find_base(str(file.parent))
    finally:
        file.write_bytes(content)
    assert find_base(str(file.parent)).name == f"{ORIGIN}-ka"


def test_one_is_grown_from_another_and_from_an_exported_model(trained, tmp_path):
    for origin in (trained.base, find_base(str(trained.project.ready))):
        again = add_language(origin, "hy", tmp_path / origin.name, corpus=_armenian(tmp_path), target=20).base
        base = find_base(str(again.folder))
        assert {"ka", "hy", "en"} <= set(base.tokenizer().languages)
        assert base.dvae == find_base(ORIGIN).dvae
        assert not {"run", "checkpoint", "exported", "decoder"} & set(base.about)
        assert base.about["training"] == origin.about["training"] and base.license == "Apache-2.0"
        assert base.about.get("loads_in") == origin.about.get("loads_in")


def test_it_moves_with_its_project_and_its_runs_go_on(trained, tmp_path):
    moved = Project(name="umgezogen", output=trained.project.output)
    trained.project.folder.rename(moved.folder)
    try:
        base = find_base(str(moved.folder / "base-ka"))
        assert base.dvae == find_base(ORIGIN).dvae
        assert run_base(moved.runs / "one").folder == base.folder
        place = ["--project", moved.name, "--output", str(moved.output)]
        train.main([*place, "--resume", "last", "--num-epochs", "2"])
    finally:
        moved.folder.rename(trained.project.folder)


def test_what_it_was_grown_from_is_found_where_it_lies_now(grown, tmp_path):
    """The repository, or the folder of all bases, was moved: the path that was written down leads nowhere."""
    about = json.loads((grown.base.folder / "about.json").read_text(encoding="utf-8"))
    origin = find_base(ORIGIN)
    folder = tmp_path / "base-ka"
    folder.mkdir()
    about["base"]["folder"] = str(tmp_path / "gone" / origin.folder.name)
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
    assert Base(folder).dvae == origin.dvae


def test_a_base_in_a_folder_of_ones_own_is_named_by_the_way_to_it(tmp_path):
    own, made = tmp_path / "anna" / "own", tmp_path / "anna" / "output" / "voice" / "ready"
    made.mkdir(parents=True)
    shutil.copytree(find_base("tiny").folder, own)
    facts = {"base": Base(own).as_origin(made)}
    assert facts["base"]["folder"] == "../../../own"
    (made / "about.json").write_text(json.dumps(facts), encoding="utf-8")
    assert Base(made).dvae == own / "dvae.safetensors"
    shutil.copytree(tmp_path / "anna", tmp_path / "ben")
    shutil.rmtree(tmp_path / "anna")
    assert Base(tmp_path / "ben/output/voice/ready").dvae == tmp_path / "ben/own/dvae.safetensors", "it moved with it"


def _armenian(folder: Path) -> Path:
    path = folder / "hy.txt"
    path.write_text("բարև ձեզ ինչպես եք\n" * 10, encoding="utf-8")
    return path
