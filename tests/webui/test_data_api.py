"""Tab 1 through the page's API: every kind of upload becomes clips, and clips are fixed as a person would.

One app and one dataset for all: a preparation starts a process that loads PyTorch.
"""

import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client, handle_file

from tests.sounds import TEXTS, speech
from utils.audio.write import write_wav
from utils.options import DATASET_RATE

LIMIT_S = 900
SECONDS = 3.0


def sound(folder: Path, name: str, *, seconds: float = SECONDS, seed: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    write_wav(folder / name, speech(seconds, seed=seed), DATASET_RATE)
    return folder / name


def words(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def every_kind(folder: Path) -> tuple[list[Path], set[str]]:
    """Uploads of each kind, and the names of the recordings in them."""
    names = ["beside.wav", "subtitled.wav", "film.wav", "labelled.wav"]
    files = [
        sound(folder, name, seconds=8.0 if name != "beside.wav" else SECONDS, seed=n) for n, name in enumerate(names)
    ]
    cues = [(0.5, 3.5, TEXTS[1]), (4.0, 7.5, TEXTS[2])]
    files.append(words(folder, "beside.txt", TEXTS[0]))
    files.append(words(folder, "subtitled.srt", "".join(_srt(n, *cue) for n, cue in enumerate(cues, 1))))
    files.append(words(folder, "film.vtt", "WEBVTT\n\n" + "".join(_vtt(*cue) for cue in cues)))
    files.append(words(folder, "labelled.txt", "".join(f"{start}\t{end}\t{said}\n" for start, end, said in cues)))
    inside = [sound(folder, "zipped.wav", seed=7), words(folder, "zipped.txt", TEXTS[3])]
    table = [sound(folder, "listed.wav", seed=8), words(folder, "metadata.jsonl", _row("listed.wav", TEXTS[4]))]
    for name, members in (("plain.zip", inside), ("table.zip", table)):
        with zipfile.ZipFile(folder / name, "w") as archive:
            for member in members:
                archive.write(member, member.name)
        files.append(folder / name)
    return files, {*names, "zipped.wav", "listed.wav"}


def _srt(number: int, start: float, end: float, said: str) -> str:
    return f"{number}\n00:00:0{start:.3f} --> 00:00:0{end:.3f}\n{said}\n\n".replace(".", ",", 2)


def _vtt(start: float, end: float, said: str) -> str:
    return f"00:00:0{start:.3f} --> 00:00:0{end:.3f}\n{said}\n\n"


def _row(audio: str, said: str) -> str:
    return json.dumps({"audio_file": audio, "text": said}) + "\n"


class Voice:
    """One project of a running app."""

    def __init__(self, client: Client, output: Path, project: str) -> None:
        self.client, self.folder, self.project = client, output / project, project

    def call(self, name: str, **values: Any) -> Any:
        return self.client.predict(project=self.project, api_name=f"/{name}", **values)

    def wait(self, kind: str) -> dict[str, Any]:
        """The newest job of a kind once it has ended."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            job = next(job for job in self.call("status")["jobs"] if job["kind"] == kind)
            if job["state"] not in ("starting", "running", "stopping"):
                return job
            time.sleep(0.3)
        pytest.fail(f"{kind} took longer than {LIMIT_S} s")

    def done(self, kind: str) -> None:
        job = self.wait(kind)
        assert job["state"] == "finished", job["message"]

    def clips(self, where: Callable[[dict], bool] = lambda clip: True) -> list[dict[str, Any]]:
        report = json.loads((self.folder / "dataset" / "report.json").read_text(encoding="utf-8"))
        return [clip for clip in report["clips"] if where(clip)]


@pytest.fixture(scope="module")
def voice(address: str, output: Path, tmp_path_factory: pytest.TempPathFactory) -> Voice:
    files, _ = every_kind(tmp_path_factory.mktemp("source"))
    made = Voice(Client(address, verbose=False, ssl_verify=False), output, "uploads")
    made.client.predict(new_project="uploads", language="en", base="tiny", api_name="/project_create")
    made.call("data_upload", files=[handle_file(path) for path in files])
    made.call("data_prepare", language="en", base="tiny", eval_fraction="0.3", quality=False, check_speakers=False)
    made.done("prepare")
    return made


@pytest.mark.slow
def test_every_kind_of_upload_becomes_clips(voice, tmp_path):
    _, recordings = every_kind(tmp_path / "again")
    used = {Path(clip["source"]).name for clip in voice.clips(lambda clip: clip["status"] == "used")}
    assert used == recordings, [(clip["source"], clip["reason"], clip["detail"]) for clip in voice.clips()]


@pytest.mark.slow
def test_a_clip_is_cut_joined_and_given_back(voice):
    whole = voice.clips(lambda clip: clip["status"] == "used" and clip["source"].endswith("beside.wav"))[0]
    voice.call("clip_split", clip=whole["clip"], at_s=1.4, text_before="The early bird", text_after="catches the worm.")
    voice.done("fix")
    parts = voice.clips(lambda clip: clip["made_from"] == [whole["id"]])
    assert [part["text"] for part in parts] == ["The early bird", "catches the worm."]
    voice.call("clip_merge", clip=parts[0]["clip"])
    voice.done("fix")
    (joined,) = voice.clips(lambda clip: clip["id"] == whole["id"])
    assert joined["text"] == whole["text"] and joined["status"] == "used"
    assert not voice.clips(lambda clip: clip["made_from"] == [whole["id"]])
    voice.call("clip_trim", clip=joined["clip"], start_s=9, end_s=12)
    failed = voice.wait("fix")
    assert failed["state"] == "failed" and "is not within" in failed["message"]


@pytest.mark.slow
def test_a_language_is_looked_at_and_the_base_extended(voice, tmp_path):
    tmp_path.mkdir(exist_ok=True)
    corpus = words(tmp_path, "amharic.txt", "ሰላም ለዓለም። ይህ አዲስ ድምፅ ነው። ሰላም ሰላም ለሁሉም ሰው።\n" * 20)
    asked = {"language": "amh", "base": "tiny", "corpus": handle_file(corpus)}
    voice.call("language_extend", new_tokens=30, **asked)
    voice.done("language")
    found = json.loads((voice.folder / "language.json").read_text(encoding="utf-8"))
    assert found["before"]["unknown"] and not found["after"]["unknown"]
    assert Path(found["made"]) == voice.folder / "base-amh"


@pytest.mark.slow
def test_uploads_are_found_under_the_names_of_their_table(voice, tmp_path):
    """gradio takes signs out of names and cuts them at 200 bytes, our folder takes out more and cuts at 150."""
    cut = "a name of 200 bytes, " + "長い" * 29
    odd = ["take #1", "[soft] voice", "50% done!", "Ünïcode \u2013 dash", "ends with dots...", cut]
    stems = [*odd, "smile \U0001f600"]
    names = [f"{stem}.wav" for stem in stems] + ["no ending"]
    assert len(f"{cut}.wav".encode()) > 195
    files = [sound(tmp_path, f"{number}.wav", seed=20 + number) for number in range(len(names))]
    files = [file.rename(tmp_path / name) for file, name in zip(files, names, strict=True)]
    texts = (TEXTS * 3)[: len(names)]
    rows = "".join(f"{name}|{said}\n" for name, said in zip(names, texts, strict=True))
    table = words(tmp_path, "metadata.csv", "audio_file|text\n" + rows)
    named = Voice(voice.client, voice.folder.parent, "named")
    named.client.predict(new_project="named", language="en", base="tiny", api_name="/project_create")
    named.call("data_upload", files=[handle_file(file) for file in [*files, table]])
    named.call("data_prepare", language="en", base="tiny", quality=False, check_speakers=False)
    named.done("prepare")
    found = [(Path(clip["source"]).stem, clip["text"]) for clip in named.clips(lambda clip: clip["status"] == "used")]
    assert [said for _, said in found] == texts
    # Each recording has the text of its own row.
    for (stem, _), name in zip(found, names, strict=True):
        letters = ["".join(filter(str.isalnum, text)) for text in (stem, name.removesuffix(".wav"))]
        assert letters[1].startswith(letters[0]) and letters[0]
