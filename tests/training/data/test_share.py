"""Two processes share reading and encoding: each does its part, and both have all."""

import json
import os
import shutil
import socket
from multiprocessing.context import ForkServerContext

from tests.training.data.test_clip_list import plain, start
from utils.dataset.storage import stamps
from utils.project.paths import Project
from utils.training.data import codes as audio_files
from utils.training.data.codes import CodeCache

WORLD = 2
TIMEOUT_S = 120


def take_part(rank: int, port: int, project: Project) -> None:
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in places.items()}, MASTER_ADDR="127.0.0.1")
    stamps._RACY_NS = -1
    did = {"read": 0, "encoded": 0}
    read, add = audio_files.read_facts, CodeCache.add

    def read_counted(path) -> audio_files.AudioFacts:
        did["read"] += 1
        return read(path)

    def add_counted(self: CodeCache, codes: dict) -> None:
        did["encoded"] += len(codes)
        add(self, codes)

    audio_files.read_facts, CodeCache.add = read_counted, add_counted
    data = start(project)
    clips = [str(one) for clips in (data.train, data.evaluate) for one in plain(clips)]
    (project.output / f"process-{rank}.json").write_text(json.dumps({**did, "clips": clips}))


def test_each_process_reads_and_encodes_its_part(processes: ForkServerContext, project: Project) -> None:
    # Other tests may have trained on the project that this one is a copy of.
    shutil.rmtree(project.dataset / "codes", ignore_errors=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [processes.Process(target=take_part, args=(rank, port, project)) for rank in range(WORLD)]
    for child in children:
        child.start()
    for child in children:
        child.join(TIMEOUT_S)
        if child.exitcode is None:
            child.kill()
    assert [child.exitcode for child in children] == [0, 0]
    did = [json.loads((project.output / f"process-{rank}.json").read_text()) for rank in range(WORLD)]
    assert [(one["read"], one["encoded"]) for one in did] == [(4, 4), (4, 4)]
    alone = start(project)
    assert did[0]["clips"] == did[1]["clips"]
    assert did[0]["clips"] == [str(one) for clips in (alone.train, alone.evaluate) for one in plain(clips)]
