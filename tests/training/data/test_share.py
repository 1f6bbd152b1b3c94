"""Two processes share reading and encoding: each does its part, both have all, and both hear of a fault."""

import json
import os
import socket
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.errors import UserError
from utils.training.data import audio_files
from utils.training.data.audio_files import AudioFiles
from utils.training.data.codes import CodeCache, cache_codes
from utils.training.optimizer.precision import make_accelerator

WORLD = 2
TIMEOUT_S = 120


def take_part(rank: int, port: int, clips: list[Path], broken: Path, folder: Path) -> None:
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in places.items()}, MASTER_ADDR="127.0.0.1")
    did: dict[str, object] = {"read": 0, "encoded": 0}
    read, add = audio_files.read_facts, CodeCache.add

    def read_counted(path: Path) -> audio_files.AudioFacts:
        did["read"] += 1
        return read(path)

    def add_counted(self: CodeCache, codes: dict) -> None:
        did["encoded"] += len(codes)
        add(self, codes)

    audio_files.read_facts, CodeCache.add = read_counted, add_counted
    accelerator, files = make_accelerator("cpu"), AudioFiles(folder)
    files.look(clips, accelerator)
    codes = cache_codes(clips, find_base("tiny"), folder, files=files, accelerator=accelerator)
    did["codes"] = [codes[clip].tolist() for clip in clips]
    try:
        files.look([clips[0], broken], accelerator)
    except UserError as error:
        did["fault"] = error.what
    (folder / f"process-{rank}.json").write_text(json.dumps(did))


def test_each_process_reads_and_encodes_its_part(processes: ForkServerContext, tmp_path: Path) -> None:
    clips, broken, folder = [tmp_path / f"{number}.wav" for number in range(5)], tmp_path / "broken.wav", tmp_path / "c"
    for number, clip in enumerate(clips):
        write_wav(clip, speech(1.0 + 0.3 * number, seed=number), 22_050)
    broken.write_bytes(b"no sound")
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [processes.Process(target=take_part, args=(rank, port, clips, broken, folder)) for rank in range(WORLD)]
    for child in children:
        child.start()
    for child in children:
        child.join(TIMEOUT_S)
        if child.exitcode is None:
            child.kill()
    assert [child.exitcode for child in children] == [0, 0]

    alone = cache_codes(clips, find_base("tiny"), tmp_path / "alone")
    did = [json.loads((folder / f"process-{rank}.json").read_text()) for rank in range(WORLD)]
    assert [one["codes"] for one in did] == [[alone[clip].tolist() for clip in clips]] * 2
    assert [one["encoded"] for one in did] == [3, 2]
    assert [one["read"] for one in did] == [3, 2 + 1], "the second met the broken one, too"
    assert did[0]["fault"] == did[1]["fault"] and "broken.wav" in did[0]["fault"]


def test_one_process_reads_what_it_needs_when_it_needs_it(tmp_path: Path) -> None:
    AudioFiles(tmp_path).look([tmp_path / "missing.wav"], make_accelerator("cpu"))
    with pytest.raises(UserError, match=r"missing\.wav"):
        AudioFiles(tmp_path).facts(tmp_path / "missing.wav")
