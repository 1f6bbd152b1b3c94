"""What the training benchmarks count and how they compare: formulas with known answers, and a run of each engine."""

import json
import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import quality, stock, vocabulary
from benchmarks.full_base import SIZES
from benchmarks.limits import Limits, num_parameters
from benchmarks.lost_sentences import judged
from benchmarks.quality import compare
from benchmarks.step_table import Result, Table
from benchmarks.train_step import CELLS, REFERENCES, Settings, cells_of, earlier, main, measure_cell, plain_rounds
from tests.test_architecture import ROOT
from utils.hardware.processor import cpu
from utils.performance_utils import useful_flops
from utils.training import preflight as measure
from utils.training.preflight import Measurement

RESULTS = ROOT / "benchmarks" / "results"


def test_an_update_moves_the_bytes_of_all_that_learns():
    assert num_parameters(30, 1024, 16) == 441.02e6


def curves(*ends: float) -> list[list[float]]:
    return [[4.0, end] for end in ends]


def test_the_comparison_wants_learning_and_a_difference_within_the_spread():
    same = compare(curves(2.0, 2.1, 1.9), curves(2.02, 2.08, 1.93))
    assert same["counts"] and same["within"] and same["difference"] == pytest.approx(0.01)
    worse = compare(curves(2.0, 2.1, 1.9), curves(2.4, 2.5, 2.3))
    assert worse["counts"] and not worse["within"]
    assert not compare(curves(3.9, 3.9, 3.8), curves(3.9, 3.9, 3.8))["counts"]


def test_a_quality_record_goes_on_with_what_it_has_and_only_compares_whole_seeds(tmp_path, monkeypatch):
    trained: list[tuple[str, int]] = []

    def train(settings: quality.Settings, engine: str, seed: int, work: Path) -> list[float]:
        trained.append((engine, seed))
        if (engine, seed) == ("ours, all switches", 3):
            raise KeyboardInterrupt
        return [4.0, 2.0 + seed / 10]

    def run(*flags: str) -> dict[str, Any]:
        monkeypatch.setattr("sys.argv", ["quality", "--out", str(tmp_path / "record.json"), *flags])
        quality.main()
        return dict(json.loads((tmp_path / "record.json").read_text(encoding="utf-8")))

    monkeypatch.setattr(quality, "_apart", train)
    monkeypatch.setattr(quality, "_prepare", lambda work, base: None)
    with pytest.raises(KeyboardInterrupt):
        run()
    monkeypatch.setattr(quality, "_apart", lambda *_: trained.append(("again", 0)) or [4.0, 2.3])
    record, before = run("--add"), [*trained]
    assert before.count(("again", 0)) == 1  # what the interruption left of the third seed
    assert record["verdicts"]["ours, all switches"]["ours"] == pytest.approx(2.2)
    assert run("--add", "--seeds", "1") and trained == before
    with pytest.raises(SystemExit, match="other switches or settings"):
        run("--add", "--steps", "100")


def measured(*, seconds: float, cpu_s: float, **other: Any) -> Measurement:
    """Four steps of one clip each on two threads."""
    clips = {"audio_s": 10.0, "text_tokens": [60] * 4, "codes": [110] * 4, "useful_share": 0.9, "steps": 4}
    return Measurement(
        **{"seconds": seconds, "cpu_s": cpu_s, "threads": 2, "peak_bytes": 2_000_000_000} | clips | other
    )


def test_a_record_says_once_what_the_switches_did_in_all_rounds():
    on, off = {"sdpa": {"state": "on"}}, {"sdpa": {"state": "off"}}
    rounds = [measured(seconds=1.0, cpu_s=1.0, switches=switches) for switches in (on, on, off)]
    assert [one["switches"] for one in plain_rounds(rounds)] == [on, {}, off]


def make_table(device: str, *results: Result) -> Table:
    limits = Limits(device="here", flops=1e12, bandwidth=1e11)
    return Table(device=device, size=SIZES["full"], limits=limits, references={"stock": "stock"}, results=[*results])


def numbers(table: Table, result: Result) -> dict[str, str]:
    """A row by its headings; of two ratios of one name, the clock's."""
    found: dict[str, str] = {}
    for heading, number in zip(table.headings(), table.row(result), strict=True):
        found.setdefault(heading, number)
    return found


def test_each_time_is_that_of_its_least_disturbed_round_and_faults_are_shown():
    rounds = [
        measured(seconds=5.0, cpu_s=8.0),
        Measurement(fault="out of memory"),
        measured(seconds=8.0, cpu_s=4.0, peak_bytes=3_000_000_000),
    ]
    stock = Result(name="stock", rounds=[measured(seconds=20.0, cpu_s=10.0, threads=1)])
    ours, lost = Result(name="ours", rounds=rounds), Result(name="lost", rounds=rounds[1:2])
    table = make_table("cpu", stock, ours, lost)
    # Stock has one thread: by the clock it is slower by more than by processor time, where the idle core is free.
    assert table.row(ours)[:4] == ["2.00", "4.00", "5.00", "5.00"]
    assert numbers(table, ours)["peak GB"] == "3.00"
    assert table.row(lost) == ["out of memory"]
    lines = table.text().splitlines()
    assert lines[3].endswith("out of memory")
    assert "slower rounds took 60% to 60% longer by clock" in lines
    assert "slower rounds took 100% to 100% longer by CPU time" in lines
    assert make_table("cpu", ours).row(ours)[1] == ""  # its reference was not measured


def test_a_switch_that_was_off_is_named_in_its_row():
    switches = {"lora": {"asked": 8, "reason": "no room"}, "sdpa": {"asked": True, "reason": None}}
    table = make_table("cpu", Result(name="ours", rounds=[measured(seconds=1.0, cpu_s=1.0, switches=switches)]))
    assert table.text().splitlines()[1].endswith("off: lora")
    assert "ours   off: lora |" in table.markdown()
    assert not any("8-bit" in result.name for result in cells_of("cpu"))
    assert [result.name for result in cells_of("cuda")] == list(CELLS)


def test_utilisation_is_by_the_clock_and_only_where_its_formula_describes_the_step():
    rounds = [measured(seconds=10.0, cpu_s=4.0)]

    def shares(**changes: Any) -> tuple[str, str]:
        row = numbers(table := make_table("cpu", result := Result(name="a", changes=changes, rounds=rounds)), result)
        assert row["MFU"] in table.text()
        return row["MFU"], row["limit"]

    arithmetic = useful_flops([60] * 4, [110] * 4, layers=30, width=1024) / 1e12
    update = 4 * 28 * 441.02e6 / 1e11
    expected = f"{arithmetic / 10:.0%}", f"{(arithmetic + update) / 10:.0%}"
    assert shares() == shares(gradient_checkpointing="full") == expected
    assert shares(lora_rank=32) == shares(freeze_conditioning=True) == ("", "")
    assert shares(eight_bit_optimizer=True) == (expected[0], "")


def test_on_a_gpu_the_clock_counts_and_both_kinds_of_memory_are_shown():
    result = Result(name="stock", rounds=[measured(seconds=5.0, cpu_s=1.0, reserved_bytes=4_000_000_000)])
    row = numbers(table := make_table("cuda", result), result)
    assert "CPU time" not in row and "CPU time" not in table.text()
    assert (row["clock"], row["alloc GB"], row["resvd GB"]) == ("2.00", "2.00", "4.00")


def rows_of(lines: list[str]) -> dict[str, dict[str, str]]:
    """The rows of a Markdown table by name, their cells by heading; of two columns of one heading, the first."""
    _, *headings = (cell.strip() for cell in lines[0].strip("|").split("|"))
    found: dict[str, dict[str, str]] = {}
    for line in lines[2:]:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        found[name] = dict(reversed([*zip(headings, cells, strict=True)]))
    return found


def test_the_tables_of_the_docs_are_those_of_the_records():
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    tables = re.findall(r"\(`(train_step_full_\w+\.json)`\)[^|]*\n\n((?:\|.*\n)+)", text)
    assert len(tables) > 1
    for record, table in tables:
        measured = rows_of(json.loads((RESULTS / record).read_text(encoding="utf-8"))["markdown"])
        for name, row in rows_of(table.splitlines()).items():
            assert row.items() <= measured[name].items(), f"{record}: {name}"
    # A GPU's table is in the docs as soon as one was measured.
    assert (RESULTS / "train_step_full_cuda.json").is_file() == any("cuda" in record for record, _ in tables)


class StockTrainer:
    """Takes stock's steps without a model."""

    optimizer, criterion, scheduler, scaler = [None], [None], [None], None

    def format_batch(self, batch: dict[str, Any]) -> dict[str, Any]:
        return batch

    def optimize(self, *_: Any) -> tuple[None, dict[str, float], None]:
        return None, {"loss": 1.5}, None


def test_the_seconds_of_stock_are_those_of_the_clips_and_not_of_its_codes():
    batch = {"text_lengths": torch.tensor([3, 5]), "wav_lengths": torch.tensor([22_050, 33_075])}
    found = stock._timed(StockTrainer(), iter([batch] * 2), steps=2)
    assert found.audio_s == pytest.approx(5.0)
    assert found.codes == [22, 33] * 2


LATE_S = 0.2


def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that takes a while after the last step."""
    answers = {"is_available": True, "max_memory_allocated": 0, "max_memory_reserved": 0}
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: time.sleep(LATE_S))


def test_the_last_update_is_timed_in_both_engines(monkeypatch):
    """Losses can be read before a GPU has done the update."""
    batch = {"text_lengths": torch.tensor([3]), "wav_lengths": torch.tensor([22_050])}
    ours = SimpleNamespace(gather_indices=torch.zeros(1, 60), num_positions=60)
    clip = SimpleNamespace(packed=ours, audio_seconds=1.0, text_lengths=[3], code_lengths=[22])
    result = SimpleNamespace(losses=SimpleNamespace(total=1.5))
    trainer = SimpleNamespace(device=torch.device("cuda"), step=lambda batches: result)
    monkeypatch.setattr(measure, "memory_stats", lambda: {"peak_bytes": 0})
    fake_cuda(monkeypatch)
    for found in (
        stock._timed(StockTrainer(), iter([batch]), steps=1),
        measure._timed(trainer, iter([[clip]]), 1, {}),
    ):
        assert found.seconds >= found.step_s + LATE_S


def test_generated_sentences_are_the_same_each_time_and_of_their_script():
    for language in vocabulary.LANGUAGES:
        first, again = (list(vocabulary.sentences(language, 50)) for _ in range(2))
        assert first == again and len(set(first)) == 50
        assert not any(char.isascii() and char.isalpha() for line in first for char in line)


@pytest.mark.slow
def test_a_small_run_extends_and_counts(tmp_path, monkeypatch):
    out = tmp_path / "vocabulary.json"
    flags = ["--sizes", "300", "--languages", "ka", "--target", "60", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["vocabulary", *flags])
    vocabulary.main()
    cells = {cell["stage"]: cell for cell in json.loads(out.read_text())["cells"]}
    assert list(cells) == ["extract", "normalise", "extend"]
    assert cells["normalise"]["tokens_per_s"] > 0 and cells["extract"]["peak_mb"] >= cells["extract"]["start_mb"]
    counts = cells["extend"]["tokens_a_word"]
    assert counts["corpus after"] < counts["corpus before"] and counts["unseen after"] < counts["unseen before"]


@pytest.mark.slow
def test_a_small_run_measures_both_engines_on_the_same_clips(tmp_path, monkeypatch, capsys):
    out = tmp_path / "small.json"
    flags = ["--size", "small", "--device", "cpu", "--rounds", "1", "--steps", "2", "--batch-size", "2"]
    monkeypatch.setattr("sys.argv", ["train_step", *flags, "--only", "stock, fp32", "SDPA$", "--out", str(out)])
    main()
    record = json.loads(out.read_text())
    cells = record["cells"]
    assert list(cells) == [*list(REFERENCES.values())[:2], "ours, SDPA"]
    installed, theirs, ours = (cell[0] for cell in cells.values())
    assert installed["threads"] == 1 and theirs["threads"] == ours["threads"]
    assert not theirs["fault"] and not ours["fault"]
    assert theirs["audio_s"] == pytest.approx(ours["audio_s"], abs=1e-3)
    assert ours["useful_share"] > theirs["useful_share"]
    assert ours["switches"]["sdpa"]["state"] == "on"
    assert "1.00" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["train_step", *flags, "--add", "--only", "SDPA$", "--out", str(out)])
    main()
    assert [len(cell) for cell in json.loads(out.read_text())["cells"].values()] == [1, 1, 2]
    assert json.loads(out.read_text())["cells"]["ours, SDPA"][0] == cells[list(cells)[2]][0]


def test_rounds_are_added_only_to_a_record_of_this_machine_and_these_clips(tmp_path):
    out = tmp_path / "record.json"
    settings = Settings(size="small", device="cpu", out=out).resolved()
    found = {"ours, SDPA": [{"steps": 4, "seconds": 2.0, "audio_s": 8.0, "audio_per_second": 4.0}]}
    then = {"device": "this one", "flops": 5.0, "bandwidth": 3.0}
    out.write_text(
        json.dumps({"settings": asdict(settings) | {"out": None, "work": None}, "limits": then, "cells": found})
    )
    now = Limits(device="this one", flops=4.0, bandwidth=6.0)
    limits, rounds = earlier(settings, now)
    assert limits == Limits(device="this one", flops=5.0, bandwidth=6.0)
    assert rounds == {"ours, SDPA": [Measurement(steps=4, seconds=2.0, audio_s=8.0)]}
    for other, where in ((replace(settings, batch_size=3), now), (settings, replace(now, device="another"))):
        with pytest.raises(SystemExit, match="another machine or with other settings"):
            earlier(other, where)


def test_every_ratio_is_to_a_cell_of_stock():
    assert set(REFERENCES.values()) < set(CELLS)
    assert all(isinstance(CELLS[name], str) for name in REFERENCES.values())


def test_a_name_is_chosen_by_its_parts_or_by_its_end():
    assert [cell.name for cell in cells_of("cpu", ("all three$",))] == ["ours, all three"]
    assert len(cells_of("cpu", ("all three",))) > 3


def test_cells_in_bf16_say_that_there_are_no_units_for_it(tmp_path, monkeypatch):
    """Emulated, a step takes minutes and says nothing about any machine that would compute so."""
    monkeypatch.setattr(type(cpu()), "emulates_bf16", True)
    settings = replace(Settings(device="cpu"), batch_size=1, steps=1, warmup=1)
    for what in ("bf16", CELLS["ours, all three"]):
        assert "no bf16 units" in measure_cell(settings, what, tmp_path).fault


def test_a_sentence_is_lost_only_where_the_speech_is_too_short_for_it():
    text = ("the cat sat on the mat", "all rain falls in the sea")
    both, one = " ".join(text), text[0]
    spoken = [(both, 4.0), (both, 4.1), (one, 2.1), (one, 3.9), ("the cat sad", 3.8)]
    assert judged([text] * len(spoken), spoken) == ["", "", "lost", "misread", "misread"]
