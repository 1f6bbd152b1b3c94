"""The page's poll: what it costs does not grow with the log of the run that is shown."""

import json
import time
from pathlib import Path

import pytest

from utils.projects import ProjectSettings, create_project
from webui.handlers import live
from webui.studio import Studio

VALUES = {"project.project": "maria", "project.base": "tiny", "train.run": ""}
POLLS = 20


def studio_with_run(output: Path, num_steps: int) -> tuple[Studio, Path]:
    """An app with a run that began with what polls look for, and then only made steps."""
    run = create_project("maria", output, ProjectSettings(language="en", base="tiny")).runs / "20260101-000000-1-000"
    run.mkdir(parents=True)
    first = [{"time": 1.0, "kind": "started", "total_steps": num_steps}]
    first += [{"time": 1.0, "kind": "progress", "what": "encoding clips", "done": 1, "total": 1}]
    first += [{"time": 1.0, "kind": "optimizations", "switches": {"sdpa": {"state": "on", "observed": "efficient"}}}]
    with (run / "events.jsonl").open("w", encoding="utf-8") as log:
        log.writelines(json.dumps(event) + "\n" for event in first)
        log.writelines(step(number) for number in range(1, num_steps + 1))
    return Studio(output=output), run / "events.jsonl"


def step(number: int) -> str:
    values = f'"step": {number}, "epoch": 0, "loss": 2.5, "step_s": 1.0, "audio_s": 9.0'
    return f'{{"time": {number}.5, "kind": "step", {values}}}\n'


def cost_of_polls(studio: Studio, log: Path, num_steps: int) -> float:
    """Processor seconds of some polls, a step being written between each two."""
    spent = 0.0
    for number in range(num_steps + 1, num_steps + POLLS + 1):
        with log.open("a", encoding="utf-8") as file:
            file.write(step(number))
        begun = time.process_time()
        updates = live.poll(studio, VALUES)
        spent += time.process_time() - begun
        assert f"step {number:,} of" in updates["train.progress"]
        assert "efficient" in updates["train.badge_sdpa"]
    return spent


@pytest.mark.parametrize("num_steps", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_poll_costs_the_same_however_long_the_log(tmp_path, num_steps):
    costs = []
    for name, length in (("short", 1_000), ("long", num_steps)):
        studio, log = studio_with_run(tmp_path / name, length)
        live.poll(studio, VALUES)
        costs.append(cost_of_polls(studio, log, length))
    assert costs[1] < 2 * costs[0] + 0.1
