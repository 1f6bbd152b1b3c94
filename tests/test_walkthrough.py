"""Every command of the documents is run as printed, one document after the other, in a fresh clone.

The weights of XTTS v2 cannot be here: a hub on this computer serves the tiny base under its name instead.
"""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.documents import FENCE, ROOT, commands
from tests.model.hub_server import HubServer, published_tiny
from tests.sounds import TEXTS, speech
from utils.audio.write import write_wav
from utils.options import DATASET_RATE

pytestmark = [pytest.mark.slow, pytest.mark.programs("espeak-ng"), pytest.mark.timeout(7200)]

GEORGIAN = ["გამარჯობა, როგორ ხარ?", "მე მიყვარს საქართველო.", "თბილისი ლამაზი ქალაქია."]
AMHARIC = ["ሰላም ነው።", "አዲስ አበባ ትልቅ ከተማ ናት።", "እንዴት ነህ?"]
DOCUMENTS = {
    "README.md": TEXTS,
    "docs/commands.md": TEXTS,
    "docs/dataset.md": TEXTS,
    "docs/languages.md": GEORGIAN,
    "docs/quality.md": TEXTS,
    "docs/speaking.md": TEXTS,
    "docs/training-optimizations.md": TEXTS,
}
"""Each with what is said in the recordings that it speaks of."""
TRACEBACK = "Traceback (most recent call last)"
BEFORE = {
    "docs/commands.md": 3,
    "docs/languages.md": 1,
    "docs/quality.md": 4,
    "docs/speaking.md": 4,
    "docs/training-optimizations.md": 3,
}
"""Lines of the README that a document takes for granted."""
REFUSED = {
    "--transcriber": "error: ",
    "--resume last": "has finished its",
    "--keep-languages": "names no prepared dataset",
    "--voice ben": "has no exported model yet",
}
"""What only runs where something else is: weights that are downloaded, a stopped run, hours of work. It must say so."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables of a shell in which v2.0.2 can be downloaded and `python` is this one."""
    with HubServer(revisions={"v2.0.2": published_tiny()}) as server:
        bases = {"XTTS_STUDIO_BASES": str(tmp_path_factory.mktemp("bases")), "HF_ENDPOINT": server.address()}
        offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "HF_HUB_OFFLINE"), "")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        yield {**os.environ, **bases, **offline, "PATH": path, "OMP_NUM_THREADS": "1"}


def recordings(folder: Path, texts: list[str], *, table: str = "", ending: str = ".wav", count: int = 6) -> Path:
    """Some recordings, with a text file each or one table."""
    (folder / "wavs").mkdir(parents=True)
    rows = []
    for number in range(count):
        text, place = texts[number % len(texts)], folder / ("wavs" if table else "")
        sound = speech(3.5 + 0.2 * (number % 6), seed=number + len(folder.name))
        write_wav(place / f"take{number}{ending}", sound, DATASET_RATE)
        rows.append(f"wavs/take{number}{ending}|{text}|anna" if table == "header" else f"take{number}|{text}|{text}")
        if not table:
            (folder / f"take{number}.txt").write_text(text, encoding="utf-8")
    if table:
        head = ["audio_file|text|speaker_name"] if table == "header" else []
        (folder / "metadata.csv").write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")
    return folder


def lay_out(clone: Path, texts: list[str], *, count: int = 6) -> None:
    """What the documents call the user's own; `recordings` holds this many recordings."""
    recordings(clone / "recordings", texts, count=count)
    for name in ("takes", "clips", "output/anna/uploads/dataset"):
        recordings(clone / name, texts)
    for name, table in {"my_recordings": "header", "LJSpeech-1.1": "plain"}.items():
        recordings(clone / name, texts, table=table)
    corpus = recordings(clone / "corpus", texts)
    lines = [json.dumps({"audio_file": f"take{n}.wav", "text": texts[n % len(texts)]}) for n in range(6)]
    (corpus / "metadata.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for name in ("talks", "radio", "book"):
        (clone / name).mkdir()
        write_wav(clone / name / "talk.wav", speech(8.0, seed=len(name)), DATASET_RATE)
    cues = "1\n00:00:00,000 --> 00:00:03,500\nOne and two.\n\n2\n00:00:04,000 --> 00:00:08,000\nThree and four.\n"
    (clone / "talks" / "talk.srt").write_text(cues, encoding="utf-8")
    (clone / "book" / "talk.txt").write_text("One and two. Three and four.", encoding="utf-8")
    write_wav(clone / "interview.mp4", speech(4.0, seed=9), DATASET_RATE)
    for number in (1, 2, 3):
        write_wav(clone / f"clip{number}.wav", speech(4.0, seed=number), DATASET_RATE)
    with ZipFile(clone / "clips.zip", "w") as archive:
        for path in sorted((clone / "clips").glob("take*")):
            archive.write(path, path.name)
    (clone / "corpus.txt").write_text("\n".join(GEORGIAN * 20), encoding="utf-8")
    (clone / "texts.csv").write_text("text\n" + "\n".join(AMHARIC * 20), encoding="utf-8")


def lines_of(document: str) -> list[str]:
    return [line for name, line in commands() if name == document and line.startswith("python -m ")]


def filled_in(line: str, clone: Path) -> str:
    """The line with what its placeholders stand for."""
    if "3f1c..." in line:
        report = json.loads((clone / "output" / "anna" / "dataset" / "report.json").read_text(encoding="utf-8"))
        used = [clip for clip in report["clips"] if clip["status"] == "used"]
        line = line.replace("3f1c...", used[0]["clip"])
    runs = sorted((clone / "output" / "maria" / "runs").glob("*"))
    return re.sub(r"\bRUN\b", runs[-1].name if runs else "RUN", re.sub(r"--project P\b", "--project maria", line))


SHELL = """
import json, os, runpy, sys
sys.path.insert(0, os.getcwd())
import utils.dataset.build, utils.evaluation.evaluate, utils.inference.export, utils.training.train
for request in sys.stdin:
    module, words, place, streams = json.loads(request)
    if not (child := os.fork()):
        for number, path in enumerate(streams):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
        os.chdir(place)
        sys.argv = [module, *words]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        raise SystemExit
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs `python -m` lines, each in a process of its own that finds the libraries loaded, which is most of a run."""


class Shell:
    """Runs lines in a clone as a user does who answers each question with yes."""

    def __init__(self, clone: Path, variables: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", SHELL]
        self._clone = clone
        self._process = subprocess.Popen(command, cwd=clone, env=variables, stdin=pipe, stdout=pipe, text=True)

    def run(self, line: str) -> tuple[int, str]:
        """Exit status, and what was printed and said."""
        python, _, module, *words = shlex.split(line, comments=True)
        assert python == "python"
        user, terminal = pty.openpty()
        os.write(user, b"y\n")
        said = self._clone / ".said"
        said.unlink(missing_ok=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        request = [module, [str(Path(word).expanduser()) if word[0] == "~" else word for word in words]]
        streams = [os.ttyname(terminal), str(said), str(said)]
        self._process.stdin.write(json.dumps([*request, str(self._clone), streams]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        os.close(user)
        os.close(terminal)
        return status, said.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_run_as_printed(document, hub, tmp_path):
    clone = tmp_path / "clone"
    done = subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    # Measuring speech takes two evaluation clips, a tenth of all.
    lay_out(clone, DOCUMENTS[document], count=20 if document == "docs/quality.md" else 6)
    lines = lines_of(document)
    # What the README makes: a base that was downloaded, and a project that was trained.
    lines = [*lines_of("README.md")[: BEFORE.get(document, 0)], *lines]
    failed, language, shell = [], "", Shell(clone, hub)
    for line in lines:
        if any(part in line for part in ("benchmarks.", "recipes.base", "pytest", "speech_server", "FILE", "torch.")):
            continue  # hours; the server's lines have a test of their own; lines of published guides
        spoken = re.search(r"--language (\w+)", line)
        if document == "docs/languages.md" and spoken and spoken[1] != language:
            language = spoken[1]
            shutil.rmtree(clone / "output" / "my", ignore_errors=True)  # two examples of one name
            shutil.rmtree(clone / "recordings")
            recordings(clone / "recordings", AMHARIC if language == "amh" else GEORGIAN)
        status, said = shell.run(filled_in(line, clone))
        sys.stderr.write(f"{status}  {line}\n")
        wanted = next((words for part, words in REFUSED.items() if part in line), None)
        if status != 0 and not (wanted and wanted in said and TRACEBACK not in said):
            failed.append(f"{line}\n{said[-2500:]}")
    shell.close()
    assert lines and not failed, "\n\n".join(failed)


@pytest.mark.parametrize("document", ["docs/dataset.md", "docs/speaking.md"])
def test_the_python_blocks_run_as_printed(document, hub, tmp_path):
    clone = tmp_path / "clone"
    done = subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    lay_out(clone, DOCUMENTS[document])
    for language, block in FENCE.findall((ROOT / document).read_text(encoding="utf-8")):
        if language == "python":
            subprocess.run([sys.executable, "-c", block], cwd=clone, env=hub, check=True)


def test_the_server_answers_every_line_of_its_document(hub, tmp_path):
    clone = tmp_path / "clone"
    done = subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    blocks = FENCE.findall((ROOT / "docs" / "server.md").read_text(encoding="utf-8"))
    shell = [line for language, block in blocks if language == "sh" for line in block.replace("\\\n", " ").splitlines()]
    # An address of another network cannot be opened here.
    start, origin = (line for line in shell if "utils.cli.speech_server" in line and "--host" not in line)
    asked = [line for line in shell if line.startswith("curl ") and ":8020" in line]
    assert asked
    for line in (start, origin):
        with subprocess.Popen(shlex.split(line), cwd=clone, env=hub, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                assert any("Listening on" in said for said in server.stdout)
                for request in asked if line == start else asked[:1]:
                    # What is piped into another program is judged by that one's status.
                    curl = "curl -sS -m 120" + " -w '%{http_code}'" * ("|" not in request)
                    answer = subprocess.run(
                        ["bash", "-c", request.replace("curl", curl, 1)],
                        cwd=clone, env=hub, capture_output=True, text=True, check=True,
                    )  # fmt: skip
                    wanted = "400" if "zoe" in request else "200"
                    assert "|" in request or answer.stdout[-3:] == wanted, f"{request}\n{answer.stdout}"
                for _, block in (one for one in blocks if one[0] == "python" and line == start):
                    subprocess.run([sys.executable, "-c", block], cwd=clone, env=hub, check=True)
            finally:
                server.terminate()
    assert (clone / "hello.mp3").stat().st_size > 1000 and (clone / "hello.wav").stat().st_size > 10_000
