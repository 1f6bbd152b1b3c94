"""What the training benchmarks count and how they judge: formulas with known answers, and a run of each engine."""

import json
from pathlib import Path

import pytest

from benchmarks import vocabulary
from benchmarks.limits import num_parameters, useful_flops
from benchmarks.quality import ENGINES, judge
from benchmarks.train_step import CELLS, REFERENCES, Result, Settings, main, table
from utils.training.measure import Measurement


def test_the_useful_arithmetic_is_that_of_the_stated_formula() -> None:
    text, codes = 60, 110
    positions = 32 + text + 1 + codes + 4
    expected = 6 * 377.49e6 * positions + 6 * 30 * 1024 * positions**2
    expected += 6 * 1024 * (6681 * (text + 1) + 1026 * (codes + 4)) + 108.7e9
    assert useful_flops([text], [codes], 30, 1024, 16) == pytest.approx(expected, rel=1e-3)
    assert useful_flops([text] * 2, [codes] * 2, 30, 1024, 16) == pytest.approx(2 * expected, rel=1e-3)
    assert num_parameters(30, 1024, 16) == 441.02e6


def curves(stock_end: list[float], our_end: list[float]) -> dict[str, list[list[float]]]:
    return {ENGINES[0]: [[4.0, end] for end in stock_end], ENGINES[1]: [[4.0, end] for end in our_end]}


def test_the_judge_wants_learning_and_a_difference_within_the_spread() -> None:
    same = judge(curves([2.0, 2.1, 1.9], [2.02, 2.08, 1.93]))
    assert same["counts"] and same["within"] and same["difference"] == pytest.approx(0.01)
    worse = judge(curves([2.0, 2.1, 1.9], [2.4, 2.5, 2.3]))
    assert worse["counts"] and not worse["within"]
    assert not judge(curves([3.9, 3.9, 3.8], [3.9, 3.9, 3.8]))["counts"]


def test_the_least_disturbed_round_counts_and_faults_are_shown() -> None:
    slow, fast = Measurement(cpu_s=3.0, seconds=2.0), Measurement(cpu_s=2.0, seconds=4.0)
    rounds = [slow, Measurement(fault="out of memory"), fast]
    assert Result(name="a", rounds=rounds).best(on_gpu=False) == fast
    assert Result(name="a", rounds=rounds).best(on_gpu=True) == slow
    assert Result(name="a", rounds=rounds[1:2]).best(on_gpu=False).fault == "out of memory"


def test_generated_sentences_are_the_same_each_time_and_of_their_script() -> None:
    for language in vocabulary.LANGUAGES:
        first, again = (list(vocabulary.sentences(language, 50)) for _ in range(2))
        assert first == again and len(set(first)) == 50
        assert not any(char.isascii() and char.isalpha() for line in first for char in line)


@pytest.mark.slow
def test_a_small_run_extends_and_counts(tmp_path: Path, monkeypatch) -> None:
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
def test_a_small_run_measures_both_engines_on_the_same_clips(tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "small.json"
    flags = ["--size", "small", "--device", "cpu", "--rounds", "1", "--steps", "2", "--batch-size", "2"]
    monkeypatch.setattr(
        "sys.argv", ["train_step", *flags, "--only", "stock, fp32", "SDPA + mixed precision", "--out", str(out)]
    )
    main()
    record = json.loads(out.read_text())
    cells = record["cells"]
    assert list(cells) == [*list(REFERENCES.values())[:2], "ours, SDPA + mixed precision"]
    installed, stock, ours = (cell[0] for cell in cells.values())
    assert installed["threads"] == 1 and stock["threads"] == ours["threads"]
    assert not stock["fault"] and not ours["fault"]
    assert stock["audio_s"] == pytest.approx(ours["audio_s"], rel=0.05)
    assert ours["useful_share"] > stock["useful_share"]
    assert ours["switches"]["sdpa"]["state"] == "on"
    assert "1.00" in capsys.readouterr().out


def test_every_cell_is_of_stock_or_of_our_settings() -> None:
    assert set(REFERENCES.values()) < set(CELLS) and table and Settings().resolved().batch_size
