"""Tab 2 in a real browser: what a run says of itself, the command and the marks of settings."""

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.webui.small_project import make_project
from utils.config import TrainConfig
from utils.project.paths import Project
from utils.project.projects import ProjectSettings
from utils.runs.process import ProcessId, host_name
from utils.runs.record import JobRecord, write_record
from webui import text
from webui.fields import training_fields
from webui.tabs import train

expect.set_options(timeout=90_000)
MAX_PHONE_LENGTH = 4_200
"""Of tab 2 with a run, in pixels of a phone 390 wide; 5 265 before it was measured."""
SHOTS = os.environ.get("XTTS_STUDIO_SCREENSHOTS")


def make_run(project: Project, name: str, *, is_alive: bool) -> Path:
    """A run of eight epochs whose evaluation loss rises from the fourth on while its training loss falls."""
    run = project.runs / name
    run.mkdir(parents=True)
    TrainConfig(project=project.name, output=project.output, seed=7).save(run / "config.yaml")
    start = {"total_steps": 120, "config": {"num_epochs": 12, "seed": 7}, "sources": {}, "device": "cpu"}
    events: list[dict] = [{"kind": "started", **start}]
    for number in range(1, 81):
        values = {"loss": 4 - number / 40, "audio_s": 9.0, "step_s": 0.85, "data_s": 0.15}
        events.append({"kind": "step", "step": number, "epoch": (number - 1) // 10, **values})
        if number % 10 == 0:
            events.append({"kind": "eval", "step": number, "loss": 3 + abs(number - 40) / 100, "is_best": number < 50})
    if not is_alive:
        events.append({"kind": "finished", "step": 80})
    now = time.time()
    lines = [json.dumps({"time": now - 100 + number, **event}) + "\n" for number, event in enumerate(events)]
    (run / "events.jsonl").write_text("".join(lines), encoding="utf-8")
    if is_alive:
        who = dataclasses.asdict(ProcessId.of(os.getpid()))
        record = JobRecord(
            kind="train", state="running", host=host_name(), command=(), cwd="", config="", started=now, **who
        )
        write_record(run, record)
    return run


@pytest.fixture(scope="module")
def page(browser: Browser, address: str, output: Path) -> Iterator[Page]:
    trained = make_project(output, "trained")
    ProjectSettings(language="en", base="starter").save(trained)
    make_run(trained, "20260101-000000-1-000", is_alive=False)
    training = make_project(output, "training")
    make_run(training, "20260102-000000-1-000", is_alive=True)
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.goto(f"{address}?tab=train&project=trained")
    expect(opened.locator("#loss-plot")).to_contain_text("lowest evaluation")
    yield opened
    opened.close()
    # Nothing else is started while a training goes on.
    shutil.rmtree(training.folder)
    assert faults == []


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.wait_for_timeout(1_000)
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


def test_the_form_shows_few_settings_and_has_all():
    shown = [*train.MAIN, *train.ADVANCED, *train.GPU_ONLY]
    assert len(shown) == len(set(shown)) and set(shown) <= set(training_fields())
    # Two more choose a switch's variant.
    assert len(train.MAIN) == 5 and len(shown) - len(train.MAIN) + 2 <= 20
    with gr.Blocks():
        parts = train.create_train_tab()
    assert {f"set_{name}" for name in training_fields()} <= set(parts)


@pytest.mark.browser
@pytest.mark.programs
def test_a_run_says_what_it_sees_beside_its_progress(page):
    progress = page.locator("#train-progress")
    expect(progress).to_contain_text("the clips were learned by heart from step 40 on")
    expect(progress).to_contain_text("Loading takes 15 % of a step. More workers may help: “Data loader workers”.")
    shot(page, "train-ended")


@pytest.mark.browser
@pytest.mark.programs
def test_a_main_setting_is_explained_where_it_is_written_in_and_nothing_moves(page):
    batch_size, help = page.locator("#set-batch-size input"), page.locator("#set-batch-size .info-text")
    below = page.locator("#recommend")
    expect(below).to_be_visible()
    expect(help).to_have_css("clip-path", "inset(50%)")
    place = below.bounding_box()
    batch_size.click()
    expect(help).to_have_css("clip-path", "none")
    expect(help).to_be_in_viewport()
    assert below.bounding_box() == place
    page.keyboard.press("Escape")
    expect(help).to_have_css("clip-path", "inset(50%)")
    page.mouse.move(0, 0)
    expect(help).to_have_css("clip-path", "none")
    batch_size.blur()
    expect(help).to_have_css("clip-path", "inset(50%)")


@pytest.mark.browser
@pytest.mark.programs
def test_changed_settings_are_marked_with_who_set_them_and_their_default(page):
    fold = page.locator("#all-settings > button.label-wrap")
    expect(fold.locator("span").first).to_have_attribute("data-changed", " · 1 not at their default")
    fold.click()
    mark = page.locator("#set-seed .setting-mark")
    expect(mark).to_have_text("from the latest run · default: 1")
    page.locator("#set-seed input").fill("8")
    expect(mark).to_have_text("changed · default: 1")
    page.locator("#set-seed input").fill("1")
    expect(mark).to_have_count(0)
    expect(fold.locator("span").first).to_have_attribute("data-changed", "")
    page.locator("#set-num-epochs textarea").fill("7")
    expect(page.locator("#set-num-epochs .setting-mark")).to_contain_text("changed · default: ")
    expect(page.locator("#set-num-epochs .setting-mark")).to_contain_text("(starter)")


@pytest.mark.browser
@pytest.mark.programs
def test_the_command_is_that_of_the_form_and_goes_when_the_form_changes(page, output):
    page.locator("#show-command").click()
    command = page.locator("#command textarea")
    expect(command).to_have_value(f"python -m utils.cli.train --project trained --output {output} --num-epochs 7")
    shot(page, "train-command")
    page.locator("#set-seed input").fill("9")
    expect(command).to_have_value("")


@pytest.mark.browser
@pytest.mark.programs
def test_stop_stands_where_train_was_while_a_run_goes_on(page):
    expect(page.locator("#step-2")).to_be_visible()
    expect(page.locator("#stop")).to_be_hidden()
    page.goto(page.url.replace("trained", "training"))
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator("#step-2")).to_be_hidden()
    expect(page.locator("#step-bar #stop")).to_be_in_viewport()
    expect(page.locator("#resume-why")).to_have_text(text.NO_RESUME_RUNNING)
    expect(page.locator("#export-why")).to_have_text(text.NO_EXPORT_YET)
    expect(page.locator("#train-progress")).to_contain_text("stop here and export the best", ignore_case=True)
    shot(page, "train-running")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#stop")).to_be_in_viewport()
    length = page.evaluate("document.documentElement.scrollHeight")
    assert 1_500 < length < MAX_PHONE_LENGTH, length
    shot(page, "train-running-phone")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.programs
def test_another_run_can_be_queued_while_one_goes_on(page):
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator("#enqueue").click()
    expect(page.locator("#queue-list")).to_contain_text(text.QUEUED)
    page.locator("#set-num-epochs textarea").fill("3")
    page.locator("#enqueue").click()
    expect(page.locator("#queue-list tbody tr")).to_have_count(2)
    shot(page, "train-queue")
    page.locator("#queue-remove").click()
    expect(page.locator("#queue-list tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("#queue-list tbody tr")).to_have_count(1)
    expect(page.locator("#queue-list")).to_contain_text("Epochs 3")
