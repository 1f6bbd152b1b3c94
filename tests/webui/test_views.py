"""What the page shows is what the facts say: badges from proofs, memory by who uses it, players inside the run."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from utils.hardware.gpu import Gpu
from utils.hardware.resources import Memory
from utils.jobs import Job
from utils.runs.layout import sample_file
from utils.runs.log import Event
from utils.runs.progress import Progress
from webui import monitor as monitor_module
from webui import text
from webui.monitor import MachineSample, Monitor
from webui.views import gpu, parts, run
from webui.views.parts import file_address

GB = 1 << 30
EVIL = "<img src=x onerror=alert(1)>"


def job(tmp_path: Path, *, state: str = "running", device: str | None = "cuda:0", message: str = "") -> Job:
    return Job(
        folder=tmp_path,
        kind="train",
        state=state,  # type: ignore[arg-type]
        message=message,
        host="here",
        device=device,
        pid=77,
        process_alive=True,
        started=1.0,
        ended=None,
    )


def card(index: int, *, used: float, processes: dict[int, int | None] | None = None) -> Gpu:
    return Gpu(
        index=index,
        name=f"Card {index}",
        total_bytes=24 * GB,
        free_bytes=int((24 - used) * GB),
        used_bytes=int(used * GB),
        utilization=93,
        temperature=61,
        processes=processes or {},
    )


def reading(*gpus: Gpu, reason: str = "") -> MachineSample:
    memory = Memory(total_bytes=32 * GB, available_bytes=20 * GB)
    return MachineSample(time=0.0, gpus=gpus, gpu_reason=reason, memory=memory)


def test_a_badge_says_what_was_observed_or_why_not():
    on = run.badge_of({"asked": True, "state": "on", "observed": "30 of 30 blocks recomputed", "reason": None})
    assert text.ON in on
    assert "30 of 30 blocks recomputed" in on
    off = {"asked": True, "state": "off", "observed": "math", "reason": "the GPU has no fused kernel"}
    for is_short in (False, True):
        assert text.OFF in run.badge_of(off, is_short=is_short) and "no fused kernel" in run.badge_of(
            off, is_short=is_short
        )
    proof = {"asked": True, "state": "on", "observed": "flash x12 in 4 of 4 block passes"}
    assert run.badge_of(proof, is_short=True) == parts.badge("on", text.ON), "kernels belong into the table"


@pytest.mark.parametrize("asked", [False, 0, None, "none", "fp32"])
def test_what_was_not_requested_is_off_without_a_warning(asked):
    off = run.badge_of({"asked": asked, "state": "off", "observed": "eager", "reason": None})
    assert off.startswith(parts.badge("unknown", text.NOT_REQUESTED)) and "eager" in off
    short = run.badge_of({"asked": asked, "state": "off", "observed": "eager", "reason": None}, is_short=True)
    assert short == parts.badge("unknown", text.NOT_REQUESTED)


@pytest.mark.parametrize("proof", [None, {"asked": True}, {"state": "maybe"}, "on", {"state": True}])
def test_without_a_proof_a_badge_claims_nothing(proof):
    assert run.badge_of(proof) == parts.badge("unknown", text.NOT_KNOWN)


def test_a_proof_cannot_bring_html():
    assert "<img" not in run.badge_of({"state": "on", "observed": EVIL})
    assert "<img" not in run.proofs({EVIL: {"asked": EVIL, "state": "off", "observed": EVIL, "reason": EVIL}})


def test_memory_is_told_by_who_uses_it(tmp_path):
    memory = {"allocated_bytes": 6 * GB, "reserved_bytes": 7 * GB, "peak_bytes": 8 * GB}
    shown = gpu.panel(reading(card(0, used=10, processes={77: 8 * GB, 99: 2 * GB})), job(tmp_path), memory)
    assert "this run 8.0 GB, others 2.0 GB, free 14.0 GB" in shown
    assert all(words in shown for words in ("Card 0", "93 % utilization", "61 °C", "6.0 GB", "7.0 GB"))


def test_where_the_driver_does_not_tell_the_process_what_torch_reserved_counts(tmp_path):
    shown = gpu.panel(reading(card(0, used=10, processes={4242: None})), job(tmp_path), {"reserved_bytes": 7 * GB})
    assert "this run 7.0 GB, others 3.0 GB" in shown


def test_the_run_is_shown_on_its_own_gpu_only(tmp_path):
    memory = {"reserved_bytes": 7 * GB}
    shown = gpu.panel(reading(card(0, used=10), card(1, used=9)), job(tmp_path, device="cuda:1"), memory)
    first, second = shown.split("Card 1")
    assert "this run" not in first.split("Card 0")[1]
    assert "this run 7.0 GB, others 2.0 GB" in second


def test_without_a_gpu_the_machines_memory_is_shown_and_why(tmp_path):
    shown = gpu.panel(
        reading(reason="no NVIDIA driver is installed"), job(tmp_path, device="cpu"), {"rss_bytes": 3 * GB}
    )
    assert "There is no GPU: no NVIDIA driver is installed" in shown
    assert "12.0 GB of 32.0 GB in use" in shown
    assert "3.0 GB" in shown


def test_the_memory_plot_marks_peak_and_limit():
    monitor = Monitor()
    now = monitor.now()
    plot = gpu.history(monitor)
    total = now.gpus[0].total_bytes if now.gpus else now.memory.total_bytes
    assert ": limit" in plot and "peak" in plot and f"{total / GB:.2f}"[:-1] in plot


def test_an_idle_machine_shows_its_memory_too():
    assert "others 10.0 GB" in gpu.panel(reading(card(0, used=10)), None, None)


def test_only_recordings_of_the_run_are_played(tmp_path):
    events = [{"step": 3, "path": "samples/a.wav", "text": EVIL}, {"step": 3, "path": "../../secret.wav", "text": "b"}]
    shown = run.samples(events, tmp_path)
    assert shown.count("<audio") == 1
    assert "secret" not in shown
    assert "<img" not in shown
    assert text.REAL_VOICE not in shown, "an old run may have no reference recording"
    (tmp_path / "reference.wav").touch()
    assert text.REAL_VOICE in run.samples(events, tmp_path)


def test_samples_stand_below_the_same_words_by_the_base(tmp_path):
    def event(step: int) -> Event:
        return {"step": step, "sentence": 1, "text": "Go on.", "path": sample_file(step, 1).as_posix()}

    later = [event(8), event(16)]
    assert text.SPOKEN_BEFORE not in run.samples(later, tmp_path), "an earlier version's run has none of its base"
    (tmp_path / sample_file(0, 1)).parent.mkdir()
    (tmp_path / sample_file(0, 1)).touch()
    for events in (later, [event(0), *later]):
        shown = run.samples(events, tmp_path)
        assert shown.count("<audio") == 3
        before, newest, oldest = map(
            shown.index, (text.SPOKEN_BEFORE, text.SPOKEN_AT.format(step=16), text.SPOKEN_AT.format(step=8))
        )
        assert before < newest < oldest
    assert run.samples([event(0)], tmp_path).count("<audio") == 1


def test_a_run_tells_how_far_it_is_and_how_it_ended(tmp_path):
    done = Progress(what="training", done=5, total=20, epoch=1, epochs=4, seconds_left=75)
    shown = run.progress(replace(job(tmp_path), started=100.0, ended=300.0), done, 4.2)
    words = "step 5 of 20 · epoch 2 of 4 · best evaluation loss 4.200 · 3 min 20 s elapsed · 1 min 15 s left"
    assert words in shown
    assert re.search(r"· 1 min \d\d s elapsed", run.progress(replace(job(tmp_path), started=time.time() - 65), done))
    resumed, lost = {"started": 100.0, "events_offset": 9}, {"started": 100.0, "state": "lost"}
    for facts in ({"started": None}, resumed, lost):
        assert "elapsed" not in run.progress(replace(job(tmp_path), **facts), done)
    assert "· 0 s elapsed" in run.progress(replace(job(tmp_path), started=time.time() + 60), done)
    failed = run.progress(job(tmp_path, state="failed", message=f"the disk is full\n{EVIL}"), None)
    assert "the disk is full" in failed
    assert "<img" not in failed


def test_the_time_of_a_step_is_one_bar_of_phases(tmp_path):
    steps = [
        {"phases": {"data": 0.5, "forward": 1.0, "backward": 2.5}},
        {"phases": {"forward": 4, "logging": 0.01}},
        {},
    ]
    assert "download" not in run.details(tmp_path, None, steps)
    (tmp_path / "config.yaml").touch()
    shown = run.details(tmp_path, None, steps)
    assert "4.00 s · waiting for data: 6% · forward: 62% · backward: 31%" in shown and "logging: 0%" in shown
    assert shown.count('class="piece phase-') == 4
    assert text.TIME_BY_PHASE not in run.details(tmp_path, None, [{"phases": "none"}, {"step": 1}])
    assert f'{file_address(tmp_path / "config.yaml")}" download="{tmp_path.name}.yaml"' in shown


def test_the_monitor_reads_for_everyone_and_draws_no_line_across_a_gap():
    clock = iter([10.0, 11.0, 12.0, 12.0, 99.0, 99.0])
    monitor = Monitor(lambda: next(clock))
    first = monitor.now()
    assert monitor.now() is first and first.memory.total_bytes > 0
    assert monitor.now() is not first and len(monitor.history()) == 2
    assert monitor.history()[0] is first and [monitor.now()] == monitor.history()


def test_a_slow_driver_keeps_one_page_waiting(monkeypatch):
    monitor, seen = Monitor(iter(range(10, 100, 10)).__next__), []
    first, survey = monitor.now(), monitor_module.find_gpus()
    monkeypatch.setattr(monitor_module, "find_gpus", lambda: seen.append(monitor.now()) or survey)
    assert monitor.now() is not first and seen == [first]


@pytest.mark.parametrize(("num_bytes", "words"), [(4_321, "4 KB"), (2_400_000, "2 MB"), (3_210_000_000, "3.2 GB")])
def test_a_small_file_has_a_size(num_bytes, words):
    assert parts.gigabytes(num_bytes) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7_500, "2 h 05 min")]
)
def test_durations_read_as_people_say_them(seconds, words):
    assert parts.duration(seconds) == words


def test_the_loss_plot_marks_the_lowest_evaluation_and_draws_earlier_runs_behind():
    nothing = {"step": [], "loss": []}
    assert run.losses(nothing, nothing) == ""
    first = run.losses({"step": [1], "loss": [5.0]}, nothing)
    assert text.TRAINING_LOSS in first and text.SMOOTHED_LOSS not in first and "best" not in first
    steps = {"step": list(range(20)), "loss": [5.0 - step / 10 for step in range(20)]}
    evaluated = {"step": [5, 10, 15], "loss": [4.0, 3.5, None]}
    shown = run.losses(steps, evaluated, {"<b>old": {"step": [5, 10], "loss": [4.5, 4.4]}})
    assert text.SMOOTHED_LOSS in shown and text.LOWEST.format(loss="3.500", step=10) in shown
    assert shown.index("others faint") < shown.index("curve warn"), "what only serves to compare lies below"
    assert "&lt;b&gt;old" in shown and "<b>old" not in shown


def test_the_exported_model_says_what_loads_it(tmp_path):
    (tmp_path / "about.json").write_text('{"loads_in": "this studio only: its own decoder"}')
    shown = run.ready_model(tmp_path)
    assert "this studio only: its own decoder" in shown and "any xtts" not in shown.lower()


def test_the_exported_model_says_what_became_of_its_decoder(tmp_path):
    facts = {"kept": "the fitted one", "mel_distance_before": 0.846, "mel_distance_after": 0.597}
    about = {"decoder": facts | {"similarity_before": 0.41, "similarity_after": 0.7}}
    (tmp_path / "about.json").write_text(json.dumps(about))
    shown = run.ready_model(tmp_path)
    assert "the fitted one; on held-out clips log-mel distance 0.85 → 0.60, similarity 0.41 → 0.70" in shown
    (tmp_path / "about.json").write_text('{"decoder": {"steps": 0, "kept": "the base\'s own: the dataset is gone"}}')
    assert "the dataset is gone" in run.ready_model(tmp_path)


def test_the_exported_model_says_how_it_speaks_beside_its_base(tmp_path):
    shares = {"texts": 20, "base": {"words": 1.0, "flawless": 0.55}, "model": {"words": 0.35, "flawless": 0.05}}
    (tmp_path / "about.json").write_text(json.dumps({"compared_with_base": shares | {"is_worse": True}}))
    shown = run.ready_model(tmp_path)
    assert "20 new texts: right words 35% (base 100%), no defect 5% (base 55%)" in shown
    assert text.WORSE_THAN_BASE in shown
    assert "2 min 40 s" in run.ready_model(tmp_path, 160.0)
    (tmp_path / "about.json").write_text(json.dumps({"compared_with_base": shares | {"is_worse": False}}))
    assert "right words 35%" in (shown := run.ready_model(tmp_path)) and text.WORSE_THAN_BASE not in shown
    for nothing in ({"texts": 0, "reason": "the base does not speak"}, None, 3, {"texts": "x", "base": []}):
        (tmp_path / "about.json").write_text(json.dumps({"compared_with_base": nothing}))
        shown = run.ready_model(tmp_path)
        assert text.BESIDE_THE_BASE not in shown and text.WORSE_THAN_BASE not in shown
