"""Tab 1, a dataset read aloud: what is kept of each recording, and the whole of it in a browser with a microphone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

from tests.webui.app import ROOT
from tests.webui.browser import running_browser
from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.cli import prepare
from utils.dataset.read_aloud.store import ENOUGH_S, RecordingSession
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.project.projects import ProjectSettings, create_project
from webui import text
from webui.change import Change, Updates, Values
from webui.handlers import read_aloud
from webui.studio import Studio

VALUES = {
    "project.project": "maria",
    "project.language": "en",
    "data.read_sentence": "",
    "data.read_sound": "x",
    "data.set_transcriber": "",
}
MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")
PLAYS = "--use-file-for-fake-audio-capture={}%noloop"
"""Each recording plays the file from its beginning, as it is then."""
RATE = 48_000
RECORDED_MS = 4_200
"""How long a sentence is recorded that lasts 3 s, with the silence around it."""


class Checker:
    """Stands for the process that checks."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {"problems": [], "seconds": 4.0, "recognized": ""}
        self.writes_s = 4

    def ask(self, request: dict[str, Any], *, device: str) -> Iterator[dict[str, Any]]:
        if self.writes_s:
            write_wav(Path(request["folder"]) / "any.wav", torch.zeros(1, 100 * self.writes_s), 100)
        yield self.answer


@pytest.fixture
def checker(studio: Studio) -> Checker:
    studio.checker = Checker()  # type: ignore[assignment]
    return studio.checker  # type: ignore[return-value]


def typed(shown: Updates, words: str | None = None) -> Values:
    """What the page sends after it was shown a sentence, with other words or with its own."""
    sentence = shown["data.read_sentence"]
    return VALUES | {"data.read_sentence": sentence, "data.read_words": words or sentence}


def test_only_what_is_clean_is_saved_unless_it_is_kept_anyway(studio, project, checker):
    reading = RecordingSession(project, "en")
    values = VALUES | {"data.read_words": reading.following()}
    checker.answer |= {"problems": ["clipping", "noise"], "recognized": "Good <b>day</b>"}
    found = read_aloud.check(studio, values)
    for words in (text.READ_ADVICE["clipping"], text.READ_ADVICE["noise"], "Good &lt;b&gt;day"):
        assert words in found["data.read_said"]
    assert found["data.read_keep"] == Change(visible=True) and reading.recorded == {}
    found = read_aloud.keep(studio, values)
    assert found["data.read_keep"] == Change(visible=False) and list(reading.recorded.values()) == [4.0]
    assert "1" in found["data.uploads"]
    # What holds no sentence at all cannot be kept.
    checker.writes_s, values = 0, values | {"data.read_words": "Another one."}
    assert read_aloud.keep(studio, values)["data.read_keep"] == Change(visible=False) and len(reading.recorded) == 1


def test_reading_ends_when_enough_is_read_and_goes_on_where_it_stopped(studio, project, checker):
    reading, checker.writes_s = RecordingSession(project, "en"), int(ENOUGH_S) - 10
    shown = read_aloud.show(studio, VALUES)
    assert shown["data.read_words"]["value"] == reading.sentences[0] and shown["data.read_sound"] is None
    found = read_aloud.check(studio, typed(shown))
    assert "2 min 50 s / 3 min 00 s" in found["data.read_said"] and found["data.read_body"] == Change(visible=True)
    shown = read_aloud.show(studio, VALUES)
    assert shown["data.read_words"]["value"] == reading.sentences[1]
    skipped = read_aloud.go_on(studio, typed(shown, "Any other words."))
    assert skipped["data.read_words"]["value"] == reading.sentences[2]
    checker.writes_s = 10
    checker.answer["problems"] = ["noise"]
    found = read_aloud.keep(studio, typed(skipped))
    assert "2 min 50 s / 3 min 00 s" in found["data.read_said"], "only clean ones count"
    checker.answer["problems"] = []
    found = read_aloud.check(studio, typed(skipped))
    assert text.READ_DONE in found["data.read_said"] and found["data.read_body"] == Change(visible=False)


def test_a_saved_sentence_is_its_transcript_and_is_done_whatever_its_words(studio, project, checker):
    reading = RecordingSession(project, "en")
    shown = read_aloud.show(studio, VALUES)
    found = read_aloud.check(studio, typed(shown, "Welcome, all of you."))
    assert found["data.read_words"] == Change(value="Welcome, all of you.", interactive=False)
    (transcript,) = (project.folder / "uploads").rglob("*.txt")
    assert transcript.read_text(encoding="utf-8") == "Welcome, all of you."
    shown = read_aloud.go_on(studio, typed(shown, "Welcome, all of you."))
    assert shown["data.read_words"] == Change(value=reading.sentences[1], interactive=True)
    assert read_aloud.show(studio, VALUES)["data.read_sentence"] == reading.sentences[1], "also after a reload"


def test_without_a_project_or_words_the_page_says_what_to_do(studio, project):
    assert text.NO_PROJECT_YET in read_aloud.show(studio, VALUES | {"project.project": None})["data.read_said"]
    with pytest.raises(UserError, match="no project is selected"):
        read_aloud.check(studio, VALUES | {"project.project": None, "data.read_words": "One."})
    with pytest.raises(UserError, match="there is no sentence"):
        read_aloud.check(studio, VALUES | {"data.read_words": " "})


def record(page: Page) -> None:
    page.locator("#read-sound .record-button").click()
    page.wait_for_timeout(RECORDED_MS)
    page.locator("#read-sound .stop-button").click()


@pytest.mark.browser
@pytest.mark.programs
def test_a_dataset_is_read_aloud_in_a_browser(address, output, tmp_path):
    """Chromium's microphone plays a file; its words are others, which are not compared here."""
    wav = load_audio(ROOT / "assets" / "demo_voice" / "wavs" / "demo-03.flac", RATE)
    sound = 1e-4 * torch.randn(1, wav.shape[1] + int(0.9 * RATE))
    sound[:, int(0.5 * RATE) : -int(0.4 * RATE)] += wav / wav.abs().max() / 2
    microphone = tmp_path / "microphone.wav"
    write_wav(microphone, sound, RATE)
    project = create_project("reader", output, ProjectSettings(language="en", base="tiny"))
    reading = RecordingSession(project, "en")
    with running_browser(*MICROPHONE, PLAYS.format(microphone)) as browser:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{address}?project=reader")
        words = page.locator("#read-words textarea")
        expect(page.locator("#read-words")).to_be_hidden()
        page.locator("#read-aloud > button").click()
        expect(words).to_have_value(reading.sentences[0], timeout=60_000)
        record(page)
        expect(page.locator("#read-said .message.good")).to_contain_text("Saved", timeout=60_000)
        expect(page.locator("#uploads")).to_contain_text("1 recording")
        expect(words).to_be_disabled()
        page.locator("#read-sound").get_by_role("button", name="Play", exact=True).click()
        page.locator("#read-again").click()
        expect(page.locator("#read-sound .record-button")).to_be_visible()
        page.locator("#read-next").click()
        expect(words).to_have_value(reading.sentences[1])
        words.fill("Tomatoes grow behind the garage.")
        write_wav(microphone, (10 * sound).clamp(-1, 1), RATE)
        record(page)
        said = page.locator("#read-said .message.warning")
        expect(said).to_contain_text(text.READ_ADVICE["clipping"], timeout=60_000)
        assert len(reading.recorded) == 1
        page.locator("#read-keep").click()
        expect(page.locator("#uploads")).to_contain_text("2 recordings")
        page.locator("#read-next").click()
        expect(words).to_have_value(reading.sentences[2])
    flags = ["--project", project.name, "--output", str(output), "--language", "en", "--base", "tiny"]
    prepare.main([*flags, "--input", str(project.folder / "uploads")])
    assert len(Report.load(project.report).used) == 2
