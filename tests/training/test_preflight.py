"""Preflight measures each combination, recommends the plainest of the fastest, and never hides what did not fit."""

import json
import os
import shlex
import signal
import sys
from dataclasses import replace

import pytest

from tests.configs import tiny_run
from tests.run_logs import events_of
from utils.bases.find import find_base
from utils.cli.measure_switches import head, line
from utils.cli.train import TrainCommand
from utils.cli.train import main as train
from utils.config import TrainConfig
from utils.errors import UserError
from utils.options import LORA_RANK
from utils.project.paths import Project
from utils.training.data.loaders import Loaders
from utils.training.plan import settle
from utils.training.preflight import (
    MAX_OVERFLOWS,
    Measurement,
    PreflightRow,
    _warm_up,
    larger_batches,
    measure_apart,
    measure_steps,
    preflight,
    recommended,
)
from utils.training.preflight import main as measure_main
from utils.training.trainer import OVERFLOW, Losses, StepResult


def settled(project: Project, **settings) -> TrainConfig:
    config = tiny_run(project, device="cpu", batch_size=2, **settings)
    return settle(config, project, find_base("tiny"))


def reported(rate: float, **more) -> Measurement:
    return Measurement(steps=1, step_s=1.0, seconds=1.0, audio_s=rate, peak_bytes=2_000_000_000, **more)


def even(config: TrainConfig, **count) -> Measurement:
    return reported(10.0)


def rows_of(monkeypatch: pytest.MonkeyPatch, config: TrainConfig, measure=even, **options) -> list[PreflightRow]:
    monkeypatch.setattr("utils.training.preflight.measure_apart", measure)
    return [row for row, _ in preflight(config, audio_s=3600.0, **options)]


def test_the_plainest_within_five_percent_of_the_fastest_is_recommended(project, monkeypatch):
    def measure_steps(config: TrainConfig, **count) -> Measurement:
        if config.lora_rank:
            return Measurement(fault="out of memory")
        fast = config.sdpa and config.mixed_precision == "auto"
        return reported(10.0 if fast and config.compile == "off" else 10.3 if fast else 4.0)

    rows = rows_of(monkeypatch, settled(project, num_epochs=2), measure_steps)
    best = recommended(rows)
    assert best is not None and best.name == "SDPA, mixed precision"
    assert best.hours == pytest.approx(2 / 10)
    assert any("out of memory" in line(row) for row in rows) and "audio-s/s" in head()
    assert recommended([replace(best, measured=Measurement(fault="no"))]) is None


NAMES = [
    ({}, ["no switch", "SDPA", "SDPA, mixed precision", "SDPA, mixed precision, full checkpointing, LoRA"]),
    (
        {"gradient_checkpointing": "none", "mixed_precision": "fp32"},
        ["no switch", "SDPA", "SDPA, compile", "SDPA, LoRA"],
    ),
    (
        {"sdpa": True, "lora_rank": 8},
        ["SDPA, LoRA", "SDPA, mixed precision, LoRA", "SDPA, mixed precision, full checkpointing, LoRA"],
    ),
    ({"compile": "reduce-overhead"}, ["compile reduce-overhead", "SDPA, compile reduce-overhead"]),
]


@pytest.mark.parametrize(("fixed", "names"), NAMES, ids=lambda value: str(value)[:40])
def test_rows_are_named_by_the_switches_that_are_on(project, monkeypatch, fixed, names):
    monkeypatch.setattr("utils.training.preflight.compiler_problem", lambda device: None)
    rows = rows_of(monkeypatch, settled(project, **fixed), fixed=fixed)
    found = {row.name: row.config for row in rows}
    assert set(names) <= set(found) and len(found) == len(rows)
    for name, config in found.items():
        assert not config.problems(), "no impossible combination is shown as a fault"
        assert ("SDPA" in name, "LoRA" in name) == (config.sdpa, config.lora_rank > 0)
        assert ("mixed precision" in name) == (config.mixed_precision != "fp32")
        assert ("full checkpointing" in name) == (config.gradient_checkpointing == "full")


def test_batches_grow_while_they_bring_more_and_fit(project, monkeypatch):
    tried: list[tuple[int, int]] = []

    def measure_steps(config: TrainConfig, **count) -> Measurement:
        tried.append((config.batch_size, config.grad_accumulation))
        rates = {4: 15.0, 8: 20.0}
        return reported(rates[config.batch_size]) if config.batch_size in rates else Measurement(fault="out of memory")

    config = settled(project, num_epochs=1, grad_accumulation=4)
    start = rows_of(monkeypatch, config)[2]
    monkeypatch.setattr("utils.training.preflight.measure_apart", measure_steps)
    found = list(larger_batches(start, audio_s=60.0))
    assert tried == [(4, 2), (8, 1), (16, 1)] and [left for _, left in found] == [2, 1, 0]
    assert found[-2][0].name == "SDPA, mixed precision, batch 8"


@pytest.mark.slow
def test_a_measurement_is_of_real_steps_in_a_process_of_its_own_and_reports_what_ran(project):
    asked = {"sdpa": True, "freeze_conditioning": True}
    seen = measure_apart(settled(project, **asked), warmup=1, steps=2)
    assert not seen.fault
    assert seen.steps == 2 and seen.audio_per_second > 0 and seen.cpu_s > 0 and 0 < seen.useful_share <= 1
    assert {name: seen.switches[name]["state"] for name in asked} == dict.fromkeys(asked, "on")
    assert len(seen.codes) == 4 and seen.peak_bytes > 100e6


def test_processes_that_read_end_with_the_measurement(project, monkeypatch):
    """Left to the garbage collector, torch waits five seconds for each of them."""
    closed = []
    monkeypatch.setattr(Loaders, "close", lambda self: closed.append(self))
    measure_steps(settled(project), warmup=1, steps=1)
    assert len(closed) == 1


def test_what_cannot_be_measured_says_why(project, monkeypatch, capsys):
    settings = project.output / "settings.yaml"
    replace(settled(project), base="/nowhere").save(settings)
    monkeypatch.setattr(sys, "argv", ["preflight", str(settings), "1", "1"])
    measure_main()
    assert "/nowhere" in json.loads(capsys.readouterr().out)["fault"]


def test_preflight_and_auto_exclude_each_other():
    with pytest.raises(UserError, match="give one of them"):
        TrainCommand(project="a", preflight=True, auto=True).validate(where="test")


def test_auto_trains_with_what_was_fastest(project, monkeypatch, capsys):
    def measure_steps(config: TrainConfig, **count) -> Measurement:
        wanted = config.gradient_checkpointing == "selective" and config.batch_size <= 4
        return reported(20.0 + config.batch_size if wanted else 10.0)

    monkeypatch.setattr("utils.training.preflight.measure_apart", measure_steps)
    train([*flags_of(project), "--num-epochs", "1", "--auto"])
    run = next(project.runs.iterdir())
    taken = events_of(run, "started")[0]["config"]
    assert (taken["gradient_checkpointing"], taken["batch_size"]) == ("selective", 4)
    assert "recommended:" in capsys.readouterr().out


DEFAULTS = {
    "batch_size": 4,
    "gradient_checkpointing": "none",
    "mixed_precision": "fp32",
    "compile": "off",
    "lora_rank": 0,
    "eight_bit_optimizer": False,
}


def test_flags_that_are_given_stay_also_where_they_are_the_default(project, monkeypatch, capsys):
    seen: list[TrainConfig] = []

    def measure_steps(config: TrainConfig, **count) -> Measurement:
        seen.append(config)
        # All that was not asked for is faster.
        return reported(
            float(config.batch_size + sum(getattr(config, name) != value for name, value in DEFAULTS.items()))
        )

    monkeypatch.setattr("utils.training.preflight.measure_apart", measure_steps)
    flags = flags_of(project)
    given = ["--batch_size", "4", "--gradient-checkpointing=none", "--mixed-precision", "fp32", "--compile", "off"]
    train([*flags, *given, "--lora-rank", "0", "--no-eight-bit-optimizer", "--preflight"])
    assert {name: {getattr(config, name) for config in seen} for name in DEFAULTS} == {
        name: {value} for name, value in DEFAULTS.items()
    }
    assert "kept as you chose: batch_size 4, mixed_precision fp32" in capsys.readouterr().out
    seen.clear()
    train([*flags, "--preflight"])
    assert {config.batch_size for config in seen} > {4, 8} and {config.lora_rank for config in seen} == {0, LORA_RANK}


def flags_of(project: Project) -> list[str]:
    return ["--base", "tiny", "--project", project.name, "--output", str(project.output), "--device", "cpu"]


def test_each_row_is_printed_when_it_is_measured_with_the_time_left(project, monkeypatch, capsys):
    lines: list[str] = []
    printed_before: list[int] = []

    def measure_steps(config: TrainConfig, **count) -> Measurement:
        lines.extend(capsys.readouterr().out.splitlines())
        printed_before.append(len(lines))
        return reported(10.0)

    monkeypatch.setattr("utils.training.preflight.measure_apart", measure_steps)
    train([*flags_of(project), "--num-epochs", "1", "--preflight"])
    head, *rows = lines[: printed_before[-1]]
    assert head.split() == ["s/step", "audio-s/s", "peak", "GB", "hours"]
    assert printed_before[:3] == [0, 2, 3], "the head and a row, then a row each"
    assert [row.split("   ")[0] for row in rows[:2]] == ["no switch", "SDPA"]
    assert rows[0].endswith(f"s left for {len(rows) - 1} more") and "left" not in rows[-1]
    said = capsys.readouterr().out
    assert f"{project.output}" in said and "recommended: no switch\n  python -m utils.cli.train --project" in said


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("mode", "ask", "status"),
    [
        ("--preflight", interrupt, 130),
        ("--auto", lambda: os.kill(os.getpid(), signal.SIGTERM), 128 + signal.SIGTERM),
    ],
)
def test_an_interruption_leaves_what_was_measured_and_a_recommendation_from_it(
    project, mode, ask, status, monkeypatch, capsys
):
    measured: list[TrainConfig] = []

    def measure_steps(config: TrainConfig, **count) -> Measurement:
        if len(measured) == 3:
            ask()
        measured.append(config)
        return reported(10.0 if config.mixed_precision == "fp32" else 20.0)

    monkeypatch.setattr("utils.training.preflight.measure_apart", measure_steps)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end:
        train([*flags_of(project), "--num-epochs", "7", mode])
    assert end.value.code == status and signal.getsignal(signal.SIGTERM) is before
    *rows, stopped, named, command = capsys.readouterr().out.splitlines()
    assert len(measured) == 3 and len(rows) == 4
    assert stopped.startswith("interrupted after 3 of ")
    assert named == "recommended of these, a partial result: SDPA, mixed precision"
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "utils.cli.train"] and words[words.index("--num-epochs") + 1] == "7"
    assert not project.runs.exists(), "--auto trains nothing then"


@pytest.mark.parametrize(("overflows", "steps"), [(0, 2), (1, 2), (5, 6), (99, 2 + MAX_OVERFLOWS)])
def test_warming_up_waits_for_a_step_that_fp16_does_not_skip(overflows, steps):
    """The proof of 8-bit moments is read from an optimizer that has run."""
    taken = []

    class Overflowing:
        def step(self, batches: list) -> StepResult:
            taken.append(batches)
            skipped = OVERFLOW if len(taken) <= overflows else ""
            losses = Losses(text=1.0, codes=1.0)
            return StepResult(losses=losses, grad_norm=1.0, learning_rate=1e-3, audio_seconds=1.0, skipped=skipped)

    _warm_up(Overflowing(), iter([[]] * 99), 2)
    assert len(taken) == steps
