"""Tasks on Ray: a killed worker costs what it was working on, errors come back as they are, and results are local's."""

import importlib.util
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.dataset.recordings import config, make_source, snapshot
from utils.dataset.build import prepare
from utils.dataset.storage.parallel import ProcessDied, require_ray, run_tasks
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.project.paths import Project

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: requirements-scale.txt"
)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_package_is_named_before_any_work(tmp_path):
    with pytest.raises(UserError, match="ray is not installed") as refused:
        prepare(config(tmp_path / "in", tmp_path / "out", engine="ray"))
    assert "requirements-scale.txt" in refused.value.fix
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="ray is not installed"):
        require_ray()


@dataclass(frozen=True)
class _Noted:
    """Notes each call in a file; dies at the tasks in `deadly`, once or always."""

    log: Path
    deadly: int = -1
    times: int = 1

    def __call__(self, tasks: Sequence[int]) -> list[int]:
        for task in tasks:
            with self.log.open("a") as file:
                file.write(f"{task}\n")
            if task == self.deadly and self.log.read_text().split().count(str(task)) <= self.times:
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGKILL)
        return [task * task for task in tasks]


@needs_ray
@pytest.mark.slow
def test_a_killed_worker_costs_only_its_own_tasks(tmp_path):
    work = _Noted(tmp_path / "log", deadly=17)
    done = dict[int, int]()
    for chunk, results in run_tasks(work, list(range(40)), workers=2, engine="ray", chunk_size=4):
        done |= dict(zip(chunk, results, strict=True))
    assert done == {n: n * n for n in range(40)}
    calls = Counter(map(int, (tmp_path / "log").read_text().split()))
    assert {n for n, count in calls.items() if count > 1} == {16, 17}


ENGINES = ["local", pytest.param("ray", marks=[needs_ray, pytest.mark.slow])]


@pytest.mark.parametrize("engine", ENGINES)
def test_tasks_that_always_kill_their_worker_end_with_an_error_for_people(tmp_path, engine):
    work, done = _Noted(tmp_path / "log", deadly=9, times=99), list[int]()
    with pytest.raises(ProcessDied, match=r"worker .*unexpectedly"):
        for chunk, _ in run_tasks(work, list(range(10)), workers=2, engine=engine, chunk_size=1):
            done += chunk
    assert done and 9 not in done, "what was done before is kept"


def _refuse(tasks: Sequence[int]) -> list[int]:
    raise UserError(what="the disk is full", where="there", fix="delete something")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_for_people_comes_back_as_it_was(engine):
    with pytest.raises(UserError) as error:
        list(run_tasks(_refuse, range(9), workers=2, engine=engine))
    assert (error.value.what, error.value.where, error.value.fix) == ("the disk is full", "there", "delete something")


@needs_ray
@pytest.mark.slow
def test_ray_and_local_make_the_same_dataset(tmp_path):
    source = make_source(tmp_path / "in", 20)
    more: dict[str, Any] = {"loudness": -23.0, "trim": True, "quality": True, "workers": 2}
    made, reports = [], []
    for engine in ("local", "ray"):
        prepare(config(source, tmp_path / engine, engine=engine, **more))
        project = Project(name="voice", output=tmp_path / engine)
        made.append({name: content for name, content in snapshot(project).items() if "report." not in name})
        reports.append(Report.load(project.report))
    assert made[0] == made[1]
    for one, other in zip(reports[0].clips, reports[1].clips, strict=True):
        assert (one.status, one.reason, one.flags, one.split) == (other.status, other.reason, other.flags, other.split)
        assert one.measures == pytest.approx(other.measures, abs=1e-4)
