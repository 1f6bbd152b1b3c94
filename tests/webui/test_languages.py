"""The page in the language of who asks: the same components in other words, side by side; scripts get English."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import gradio as gr
import pytest
from gradio.context import LocalContext
from gradio_client import Client
from starlette.requests import Request

from scripts import messages
from tests.webui.small_project import make_project
from utils.errors import UserError
from webui import text
from webui.events.wiring import Frame, wire, wire_poll
from webui.interface import create_ui
from webui.languages import language_of
from webui.registry import Registry
from webui.studio import Studio
from webui.takes import TakeWatch
from webui.text import catalog
from webui.text.catalog import PAGE_LANGUAGES, SOURCE, language, speaking

SHOWN = ("label", "info", "placeholder", "headers")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, "en"),
        ({"accept-language": "es-MX,es;q=0.9,en;q=0.8"}, "es"),
        ({"accept-language": "de-DE,de;q=0.9,en;q=0.3,es;q=0.5"}, "es"),
        ({"accept-language": "de, *"}, "en"),
        ({"accept-language": "es;q=0, en;q=0.1"}, "en"),
        ({"accept-language": "es;q=x, ;;q=,,\x00"}, "en"),
        ({"accept-language": "../es"}, "en"),
        ({"referer": "http://studio/?tab=data&lang=es", "accept-language": "en"}, "es"),
        ({"referer": "http://studio/?lang=en", "accept-language": "es"}, "en"),
        ({"referer": "http://[/?lang=../../es;=;", "accept-language": "es"}, "es"),
    ],
)
def test_the_address_then_the_browser_choose_the_language(headers, expected):
    assert language_of(headers) == expected


def test_each_language_has_the_same_texts_by_name_and_type():
    for code in PAGE_LANGUAGES:
        kinds = {name: type(value) for name, value in text.TEXTS[code].items()}
        assert kinds == {name: type(value) for name, value in text.TEXTS[SOURCE].items()}
        with speaking(code):
            assert text.TEXTS[code]["NO_PROJECT"] == text.NO_PROJECT
    assert text.TEXTS["es"]["NO_PROJECT"] != text.NO_PROJECT
    with pytest.raises(AttributeError, match="NOT_THERE"):
        text.NOT_THERE  # noqa: B018


def test_languages_side_by_side_do_not_mix():
    def said(code: str) -> set[str]:
        with speaking(code):
            return {text.uploaded(number % 2 + 1) for number in range(500)}

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(said, ["en", "es"] * 4))
    assert found[0] == {"1 file was added.", "2 files were added."}
    assert found[1] == {"Se ha añadido 1 archivo.", "Se han añadido 2 archivos."}
    assert found == found[:2] * 4


def test_the_page_in_another_language_is_the_same_page_in_other_words(tmp_path):
    make_project(tmp_path, "anna")
    page = create_ui(tmp_path)
    with speaking("es"):
        found = page.words()
        assert page.words() is found, "it is laid out once"
    assert page.words() == {}, "the page is in English"
    english = page.config["components"]
    spanish = [one | {"props": one["props"] | found.get(str(one["id"]), {})} for one in english]
    words = {word for one in spanish for key in SHOWN for word in strings(one["props"].get(key))}
    known = {ids[0]: texts[0] for ids, texts in catalog.read_po(messages.PACKAGE / "es.po").items()}
    engine = {said for texts in messages.ENGINE.values() for said in texts}
    assert not {one for one, other in known.items() if one != other} & words - engine
    assert len(set(known.values()) & words) > 150
    # Values are what handlers are given, and what the components of the English page accept.
    for one, two in zip(english, spanish, strict=True):
        assert values_of(one) == values_of(two), one["props"].get("elem_id")


def strings(value: Any) -> list[str]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [value] if isinstance(value, str) and value else [found for part in parts for found in strings(part)]


def values_of(component: dict[str, Any]) -> Any:
    props = component["props"]
    if "choices" in props:
        return [value for _, value in props["choices"] or ()], props.get("value")
    return props.get("value") if component["type"] in ("checkbox", "number", "slider", "textbox", "state") else None


def test_a_layout_that_differs_in_more_than_words_is_refused(tmp_path):
    page = create_ui(tmp_path)
    page.lay_out = lambda: gr.Number()
    with speaking("es"), pytest.raises(RuntimeError, match="other components"):
        page.words()


@pytest.fixture
def frame(tmp_path):
    registry = Registry()
    with gr.Blocks(analytics_enabled=False) as page:
        registry.add("tab", {"button": gr.Button(), "label": gr.Markdown()})
        yield Frame(page=page, registry=registry, studio=Studio(output=tmp_path))


def asked_in(code: str) -> gr.Request:
    """What gradio tells a handler of a browser with this language."""
    scope = {"type": "http", "headers": [(b"accept-language", code.encode())], "method": "POST", "path": "/"}
    return gr.Request(Request(scope), session_hash=code)


def test_handlers_pieces_faults_and_polls_speak_as_asked(frame):
    def fail(studio, values):
        raise UserError(what=text.NO_PROJECT, where=text.PROJECT, fix=text.NO_PROJECT_FIX)

    def say(studio, values):
        for _ in range(2):
            yield {"tab.label": text.NO_PROJECT}

    def poll(studio, values):
        return {"tab.label": text.NO_PROJECT}

    wire(frame, "tab.button:click", fail, outputs=[], api_name="fail")
    wire(frame, "tab.button:click", say, outputs=["tab.label"], api_name="say")
    wire_poll(frame, "tab.button:click", poll, inputs=[], outputs=["tab.label"], api_name="poll")
    fns = {dependency.api_name: dependency.fn for dependency in frame.page.fns.values()}
    with ExitStack() as stack:
        running = {}
        for code in ("es", "en"):
            LocalContext.request.set(asked_in(code))
            stack.callback(LocalContext.request.set, None)
            expected = text.TEXTS[code]["NO_PROJECT"]
            with pytest.raises(gr.Error, match=expected):
                fns["fail"]()
            running[code] = fns["say"]()
            assert list(next(running[code]).values()) == [expected]
            news, _ = fns["poll"](0, {}, asked_in(code))
            assert json.loads(news)["tab.label"] == expected, "an answer for one language is not another's"
            assert language() == SOURCE, "nothing is left behind"
        LocalContext.request.set(asked_in("es"))
        assert list(next(running["es"]).values()) == [text.TEXTS["es"]["NO_PROJECT"]]


def test_a_take_is_named_in_each_language(tmp_path, monkeypatch):
    folder = tmp_path / "take"
    folder.mkdir()
    (folder / "take.json").write_text("{}")
    monkeypatch.setattr("webui.takes.TAKE_FILE", "take.json")
    monkeypatch.setattr("webui.takes.take_folders", lambda project: [folder])
    monkeypatch.setattr("webui.takes.read_take", lambda folder: None)
    monkeypatch.setattr("webui.takes._show", lambda take: _Shown(text.NO_PROJECT))
    watch = TakeWatch()
    for code in ("en", "es", "en"):
        with speaking(code):
            assert watch.newest(None)[0].label == text.TEXTS[code]["NO_PROJECT"]


class _Shown:
    live = None

    def __init__(self, label: str) -> None:
        self.label = label


def test_two_scripts_are_each_answered_in_their_language(address):
    clients = {
        "en": Client(address, verbose=False, ssl_verify=False),
        "es": Client(address, verbose=False, ssl_verify=False, headers={"accept-language": "es"}),
    }
    for code in ("es", "en"):
        with speaking(code), pytest.raises(Exception, match=text.NO_NAME):
            clients[code].predict(new_project="", language="de", base="tiny", api_name="/project_create")
