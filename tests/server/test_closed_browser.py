"""A browser that closes while it hears a sentence: its speech ends, and the next listener is served at once."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.server.conftest import TEXT, Server
from tests.webui.browser import running_browser

pytestmark = [pytest.mark.browser, pytest.mark.programs]

SLOW_MS = 60_000


def listen(page: Page, server: Server, num_sentences: int) -> None:
    """Have an audio element play a text, as a page on this computer may, and wait until it does."""
    query = urlencode({"text": f"{TEXT} " * num_sentences, "speaker_wav": "default", "language": "en"})
    page.goto(f"{server.url}/docs")
    page.evaluate("url => document.body.append(Object.assign(new Audio(url), {muted: true}))", f"/tts_stream?{query}")
    page.evaluate("document.querySelector('audio').play()")
    expect(page.locator("audio")).not_to_have_js_property("currentTime", 0, timeout=SLOW_MS)


@pytest.mark.slow
def test_speech_of_a_browser_that_closes_ends_and_frees_the_queue(server):
    with running_browser() as browser:
        listen(browser.new_page(), server, 300)
        assert server.metric("requests_live") == 1 and server.metric("batch_size") >= 1
    # Minutes of speech are missing.
    for name in ("requests_live", "queue_length", "batch_size"):
        assert server.until(name, timeout_s=10) == 0
    spoken = server.metric("speech_seconds_total")
    assert server.post().status_code == 200
    assert spoken < server.metric("speech_seconds_total") < spoken + 20, "nothing of the first text is spoken later"
