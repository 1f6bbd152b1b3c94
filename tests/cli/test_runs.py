"""python -m utils.cli.runs: shows runs as they are on disk, and removes only what was named and confirmed."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.saving import save_best
from utils import jobs
from utils.cli.runs import main
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.runs import list as runs
from utils.runs.checkpoints import Checkpoints, is_complete

Say = Callable[..., list[str]]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with two runs: one finished, one that failed before its first evaluation."""
    project = Project(name="voice", output=tmp_path / "output")
    finished = make_run(project, "20260101-120000-1", seed=7, num_epochs=2)
    write_events(
        finished,
        {"kind": "started", "total_steps": 40},
        {"kind": "step", "step": 39, "loss": 3.5},
        {"kind": "eval", "step": 20, "loss": 2.25, "is_best": True},
        {"kind": "eval", "step": 40, "loss": 2.5, "is_best": False},
        {"kind": "step", "step": 40, "loss": 3.25},
        {"kind": "finished", "step": 40, "best_loss": 2.25},
    )
    add_checkpoints(finished, "best-00000020", "step-00000040")
    (finished / "checkpoints" / ".writing-step-00000041").mkdir()
    (finished / "checkpoints" / ".writing-step-00000041" / "model.safetensors").write_bytes(b"x" * 1_000_000)
    failed = make_run(project, "20260102-120000-1", schedule="linear")
    write_events(
        failed,
        {"kind": "started", "total_steps": 30},
        {"kind": "step", "step": 3, "loss": None},
        {"kind": "failed", "error": "the disk is full\n  where: /x", "step": 3},
    )
    add_checkpoints(failed, "step-00000002")
    for run in (finished, failed):
        for path in run.rglob("*"):
            os.utime(path, old())
    return project


def old() -> tuple[float, float]:
    """Times of a file that was touched two hours ago, of this moment: a whole suite may take half an hour."""
    return (time.time() - 7_300,) * 2


def make_run(project: Project, name: str, **settings: Any) -> Path:
    run = project.runs / name
    run.mkdir(parents=True)
    TrainConfig(project=project.name, output=project.output, **settings).save(run / "config.yaml")
    return run


def write_events(run: Path, *events: dict[str, Any]) -> None:
    (run / "events.jsonl").write_text("".join(json.dumps({"time": old()[0], **event}) + "\n" for event in events))


def add_checkpoints(run: Path, *names: str) -> None:
    """Complete checkpoints of 2 MB each."""
    for name in names:
        folder = run / "checkpoints" / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"x" * 2_000_000)
        (folder / "complete.json").write_text(json.dumps({"model.safetensors": {"size": 2_000_000, "sha256": ""}}))


def files(project: Project) -> set[Path]:
    return {path for path in project.folder.rglob("*") if path.name != ".job.lock"}


@pytest.fixture
def say(project: Project, capsys: pytest.CaptureFixture[str]) -> Iterator[Say]:
    """The lines that a command prints."""

    def run(*args: str, status: int = 0) -> list[str]:
        capsys.readouterr()
        try:
            main([*args, "--output", str(project.output)])
        except SystemExit as error:
            assert error.code == status
        else:
            assert status == 0
        text = capsys.readouterr()
        return (text.err if status else text.out).splitlines()

    yield run


def test_the_list_has_the_newest_run_first(say):
    lines = say("list")
    assert lines[0].split() == ["project", "run", "state", "steps", "best", "loss", "size", "age"]
    assert lines[1].split() == ["voice", "20260102-120000-1", "failed", "3/30", "-", "2.0", "MB", "2", "h"]
    assert lines[2].split() == ["voice", "20260101-120000-1", "finished", "40/40", "2.250", "5.0", "MB", "2", "h"]
    assert len(lines) == 3
    assert say("list", "--project", "voice") == lines


def test_the_list_of_nothing_says_so(tmp_path, capsys):
    main(["list", "--output", str(tmp_path / "nowhere")])
    assert capsys.readouterr().out == f"no runs in {tmp_path}/nowhere\n"


def test_a_run_is_shown_with_what_makes_it_different(say, project):
    lines = say("show", "20260101-120000-1", "--project", "voice")
    assert lines[:6] == [
        f"run       {project.runs}/20260101-120000-1",
        "state     finished",
        "steps     40/40",
        "loss      3.250 at the last step",
        "eval      2.250 at best",
        "size      5.0 MB",
    ]
    settings = lines[lines.index("settings that differ from the defaults") + 1 : lines.index("last events")]
    assert {line.split()[0]: line.split()[1] for line in settings} == {
        "num_epochs": "2",
        "seed": "7",
    }
    assert lines[-2].split() == ["best-00000020", "2.0", "MB", "best", "weights"]
    assert lines[-1].split() == ["step-00000040", "2.0", "MB", "to", "resume", "from"]
    assert any("finished" in line and "best_loss 2.25" in line for line in lines)
    scores = [{"step": 20, "score": 2.5}, {"step": 40, "score": 2.25}]
    write_events(project.runs / "20260101-120000-1", {"kind": "speech_scores", "scores": scores})
    best, last = say("show", "20260101-120000-1", "--project", "voice")[-2:]
    assert best.endswith("best weights, speech score 2.50") and last.endswith("to resume from, speech score 2.25")


def test_the_proofs_of_the_switches_are_shown(say, project):
    run = project.runs / "20260101-120000-1"
    lines = say("show", run.name, "--project", "voice")
    assert "optimizations: not observed yet" in lines
    sdpa = {"asked": True, "state": "on", "observed": "varlen flash in 30 of 30 blocks", "reason": None}
    precision = {"asked": "bf16", "state": "off", "observed": "fp32 products", "reason": "no bf16 units"}
    proof = {"kind": "optimizations", "step": 1, "switches": {"sdpa": sdpa, "mixed_precision": precision}}
    write_events(run, {"kind": "started"}, proof, {"kind": "step", "step": 2, "loss": 1.0})
    lines = say("show", run.name, "--project", "voice")
    begin = lines.index("optimizations, observed at step 1")
    assert [line.split("  ") for line in map(squeezed, lines[begin + 1 : begin + 4])] == [
        ["switch", "requested", "effective", "observed", "why it is off"],
        ["sdpa", "on", "on", "varlen flash in 30 of 30 blocks", "-"],
        ["mixed_precision", "bf16", "off", "fp32 products", "no bf16 units"],
    ]
    write_events(run, {**proof, "time": old()[0] - 60}, {"kind": "started"})
    assert "optimizations: not observed yet" in say("show", run.name, "--project", "voice"), "an earlier process's"


def squeezed(line: str) -> str:
    """The cells of a line, two spaces apart."""
    return re.sub(r" {2,}", "  ", line.strip())


def test_a_failure_is_shown_with_its_reason(say):
    lines = say("show", "20260102-120000-1", "--project", "voice")
    assert lines[1] == "state     failed: the disk is full"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["clean", "--project", "voice"], "nothing was chosen to be removed"),
        (["clean", "--project", "voice", "--yes"], "nothing was chosen to be removed"),
        (["clean", "--project", "voice", "--run", "nothing", "--yes"], "project 'voice' has no run 'nothing'"),
        (["clean", "--project", "voice", "--run", "..", "--yes"], "'..' cannot be used as a run name"),
        (["clean", "--project", "voice", "--run", "linked", "--yes"], "has no run 'linked'"),
        (["clean", "--project", "../voice", "--run", "a"], "'../voice' cannot be used as a project name"),
        (["show", "nothing", "--project", "voice"], "project 'voice' has no run 'nothing'"),
    ],
)
def test_nothing_goes_that_was_not_named(say, project, tmp_path, args, message):
    (tmp_path / "elsewhere").mkdir()
    (project.runs / "linked").symlink_to(tmp_path / "elsewhere")
    before = files(project)
    assert message in "\n".join(say(*args, status=2))
    assert files(project) == before


def test_without_yes_it_is_only_told_what_would_go(say, project):
    before = files(project)
    lines = say("clean", "--project", "voice", "--run", "20260101-120000-1", "--run", "20260102-120000-1")
    assert lines == [
        f"5.0 MB  {project.runs}/20260101-120000-1  the whole run",
        f"2.0 MB  {project.runs}/20260102-120000-1  the whole run",
        "would remove 7.0 MB; add --yes to remove it",
    ]
    say("clean", "--project", "voice", "--keep-best")
    assert files(project) == before


def test_a_named_run_is_removed_and_no_other(say, project):
    other = {path for path in files(project) if "20260102-120000-1" in str(path)}
    lines = say("clean", "--project", "voice", "--run", "20260101-120000-1", "--yes")
    assert lines[-1] == "removed 5.0 MB"
    assert files(project) == other | {project.runs}


def test_of_a_run_only_the_best_weights_are_kept(say, project):
    run = project.runs / "20260101-120000-1"
    before = files(project)
    lines = say("clean", "--project", "voice", "--run", run.name, "--keep-best", "--yes")
    assert [line.split("  ")[-1].strip() for line in lines[:2]] == [
        "checkpoint to resume from",
        "unfinished checkpoint",
    ]
    gone = {path.relative_to(run / "checkpoints").parts[0] for path in before - files(project)}
    assert gone == {"step-00000040", ".writing-step-00000041"}


def test_the_only_weights_of_a_run_are_kept(say, project):
    say("clean", "--project", "voice", "--keep-best", "--yes")
    left = sorted(path.parent.name for path in project.runs.rglob("model.safetensors"))
    assert left == ["best-00000020", "step-00000002"]
    assert say("clean", "--project", "voice", "--keep-best", "--yes") == ["there is nothing to remove"]


def test_weights_that_a_kill_left_whole_under_a_temporary_name_are_kept(say, project):
    run = project.runs / "20260102-120000-1"
    add_checkpoints(run, ".writing-step-00000003")
    say("clean", "--project", "voice", "--run", run.name, "--keep-best", "--yes")
    assert [path.name for path in (run / "checkpoints").iterdir()] == [".writing-step-00000003"]


def test_a_damaged_best_does_not_count(say, project):
    best = project.runs / "20260101-120000-1" / "checkpoints" / "best-00000020"
    (best / "model.safetensors").write_bytes(b"x")
    say("clean", "--project", "voice", "--run", "20260101-120000-1", "--keep-best", "--yes")
    assert [path.name for path in best.parent.iterdir()] == ["step-00000040"]


def test_a_run_in_progress_is_not_touched(say, project):
    run = make_run(project, "now")
    jobs.register(run, device="cpu", output=project.output)
    add_checkpoints(run, "best-00000001", "step-00000002")
    assert "is running" in say("clean", "--project", "voice", "--run", "now", "--yes", status=2)[0]
    say("clean", "--project", "voice", "--keep-best", "--yes")
    assert len(list((run / "checkpoints").iterdir())) == 2
    assert any("process" in line and str(os.getpid()) in line for line in say("show", "now", "--project", "voice"))
    write_events(run, {"kind": "finished"})


def test_a_run_of_unknown_process_that_still_writes_is_not_touched(say, project):
    run = project.runs / "20260102-120000-1"
    write_events(run, {"kind": "started"}, {"kind": "step", "step": 1})
    assert "is running" in say("clean", "--project", "voice", "--run", run.name, "--yes", status=2)[0]


def test_a_run_that_began_after_the_plan_is_not_touched(project):
    (removal,) = runs.plan_removal(project, ["20260102-120000-1"], keep_best=False)
    write_events(removal.run, {"kind": "started"})
    with pytest.raises(UserError, match="is running"):
        runs.remove(removal)
    assert removal.path.is_dir()


def test_a_removal_that_was_cut_is_finished_by_the_next_one(say, project):
    name = "20260101-120000-1"
    (project.runs / name).rename(project.runs / f"{runs.REMOVING}{name}")
    assert [line.split()[1] for line in say("list")[1:]] == ["20260102-120000-1"]
    say("clean", "--project", "voice", "--run", "20260102-120000-1", "--yes")
    assert list(project.runs.iterdir()) == []


def test_leftovers_of_cut_removals_go_and_those_of_a_run_that_is_alive_stay(say, project):
    """Half a run has nothing left that says it has ended; training may be pruning just now."""
    (half_run := project.runs / f"{runs.REMOVING}20250101-120000-1" / "checkpoints").mkdir(parents=True)
    (half := project.runs / "20260101-120000-1" / "checkpoints" / f"{runs.REMOVING}step-00000001").mkdir(parents=True)
    alive = project.runs / "20260103-120000-1"
    (pruned := alive / "checkpoints" / f"{runs.REMOVING}step-00000001").mkdir(parents=True)
    write_events(alive, {"kind": "started"}, {"kind": "step", "step": 1})
    say("clean", "--project", "voice", "--keep-best", "--yes")
    assert not half_run.exists() and not half.exists()
    assert pruned.is_dir()
    shutil.rmtree(project.runs)
    half_run.mkdir(parents=True)
    say("clean", "--project", "voice", "--keep-best", "--yes")
    assert not half_run.exists(), "also where no run is left"


def test_checkpoints_are_judged_as_training_judges_them(project):
    run = make_run(project, "real")
    checkpoints = Checkpoints(run)
    best = save_best(checkpoints, 5, torch.nn.Linear(2, 2), {})
    (broken := run / "checkpoints" / "best-00000009").mkdir()
    found = runs.checkpoints_of(run)
    assert [(c.path, c.step, c.is_best, c.is_complete) for c in found] == [
        (best, 5, True, is_complete(best)),
        (broken, 9, True, is_complete(broken)),
    ]
    assert found[0].is_complete and not found[1].is_complete
