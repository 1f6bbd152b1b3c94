"""The frame: ids are given once, values travel by name, faults become escaped text, polls send what changed."""

import inspect
import json
from types import SimpleNamespace

import gradio as gr
import pytest

from utils.errors import UserError
from webui.change import Change
from webui.events.wiring import ANSWER, INTERVAL, Frame, wire, wire_poll
from webui.registry import Registry
from webui.studio import Studio


@pytest.fixture
def frame(tmp_path):
    registry = Registry()
    with gr.Blocks(analytics_enabled=False) as page:
        registry.add(
            "tab",
            {"button": gr.Button(), "first": gr.Textbox(), "second": gr.Number(label="Second"), "label": gr.Markdown()},
        )
        yield Frame(page=page, registry=registry, studio=Studio(output=tmp_path))


def function(frame):
    """What the first event runs."""
    dependency = next(iter(frame.page.fns.values()))
    return dependency.fn


def test_a_component_id_is_given_once():
    registry = Registry()
    registry.add("tab", {"button": gr.Button()})
    with pytest.raises(ValueError, match=r"tab\.button"):
        registry.add("tab", {"button": gr.Button()})


def test_a_pattern_names_the_components_that_begin_so(frame):
    assert frame.registry.expand(["tab.s*", "tab.button"]) == ["tab.second", "tab.button"]
    with pytest.raises(KeyError, match="nothing"):
        frame.registry.expand(["nothing.*"])


def test_values_travel_by_name(frame):
    def add(studio, values):
        return {"tab.label": f"{values['tab.first']} {values['tab.second']}"}

    wire(frame, "tab.button:click", add, inputs=["tab.first", "tab.second"], outputs=["tab.label"], api_name="add")
    assert list(function(frame)("a", "2,5").values()) == ["a 2.5"]
    with pytest.raises(gr.Error, match="Second is &#39;x&#39;; use a number"):
        function(frame)("a", "x")
    assert list(inspect.signature(function(frame)).parameters) == ["first", "second"]


def test_two_parameters_with_one_name_are_refused(frame):
    frame.registry.add("other", {"first": gr.Textbox()})
    with pytest.raises(ValueError, match="share a name"):
        wire(frame, "tab.button:click", print, inputs=["tab.first", "other.first"], outputs=[], api_name="x")


def test_a_fault_reaches_the_page_as_escaped_text(frame):
    def fail(studio, values):
        raise UserError(what="no project <img src=x>", fix="choose another")

    wire(frame, "tab.button:click", fail, outputs=["tab.label"], api_name="fail")
    with pytest.raises(gr.Error, match="no project &lt;img src=x&gt;"):
        function(frame)()


def test_a_handler_may_not_write_what_its_wiring_does_not_name(frame):
    wire(frame, "tab.button:click", lambda s, v: {"tab.first": ""}, outputs=["tab.label"], api_name="x")
    with pytest.raises(AssertionError):
        function(frame)()


def test_a_handler_that_changes_nothing_leaves_every_component_as_it_is(frame):
    wire(frame, "tab.button:click", lambda s, v: {}, outputs=["tab.first", "tab.label"], api_name="x")
    assert list(function(frame)().values()) == [gr.skip()]


def test_a_handler_may_give_its_values_piece_by_piece(frame):
    def count(studio, values):
        yield {"tab.label": "one"}
        yield {"tab.label": "two"}
        raise UserError(what="no <three>")

    wire(frame, "tab.button:click", count, outputs=["tab.label"], api_name="count")
    pieces = function(frame)()
    assert [list(next(pieces).values()) for _ in range(2)] == [["one"], ["two"]]
    with pytest.raises(gr.Error, match="no &lt;three&gt;"):
        next(pieces)


def test_a_poll_sends_only_what_changed(frame):
    ask = polled(frame, ["a", "b", "b"])
    first, number, seen = ask(1, 0, {})
    assert first == ["a", gr.update(visible=True)]
    second, number, seen = ask(2, number, seen)
    assert second == ["b"]
    assert ask(3, number, seen) == ([], None, seen), "where nothing is new, what is remembered stays"


def test_what_was_in_a_lost_answer_is_answered_again(frame):
    ask = polled(frame, ["running", "finished", "finished", "finished"])
    _, number, seen = ask(1, 0, {})
    # The server remembers what it sent, and the browser never got it.
    lost, _, seen = ask(2, number, seen)
    again, number, seen = ask(3, number, seen)
    assert lost == ["finished"] and again == ["finished", gr.update(visible=True)]
    assert ask(4, number, seen)[0] == []


def test_a_page_of_a_server_that_was_restarted_is_answered_everything(frame):
    answered, number, _ = polled(frame, ["a"])(1, 41, {})
    assert answered == ["a", gr.update(visible=True)] and number > 41


def test_an_answer_that_was_overtaken_says_nothing(frame):
    """A slow answer about one project may end after a quick one about another, whose page it must not fill."""
    asked = []

    def slow(studio, values):
        asked.append(values)
        if len(asked) == 1:
            assert "project 2" in now(2, 0, {}, None)[0]
        return {"tab.label": f"project {values['tab.second']}"}

    ids = {"inputs": ["tab.second"], "outputs": ["tab.label"]}
    wire_poll(frame, "tab.first:change", slow, **ids, api_name="p")
    tick, now = polls(frame)
    assert tick(1, 0, {}, None) == ("", gr.skip()) and len(asked) == 2


def polled(frame, words):
    """Asks a poll that says these words one after another; gives what it answered, its number and what it remembers."""
    answers = iter(words)
    wire_poll(
        frame,
        "tab.second:change",
        lambda s, v: {"tab.label": next(answers), "tab.first": Change(visible=True)},
        inputs=["tab.second"],
        outputs=["tab.label", "tab.first"],
        api_name="p",
    )

    def ask(value, number, seen):
        news, seen = function(frame)(value, number, seen, None)
        new = json.loads(news or "{}")
        return [new[key] for key in ("tab.label", "tab.first") if key in new], new.get(ANSWER), seen

    return ask


def polls(frame):
    """What a tick runs, and what a choice runs."""
    return [dependency.fn for dependency in frame.page.fns.values() if dependency.fn]


def test_pages_that_show_the_same_share_an_answer_and_a_crowd_asks_less_often(frame):
    asked = []
    wire_poll(
        frame,
        "tab.first:change",
        lambda s, v: asked.append(v) or {"tab.label": "a"},
        inputs=["tab.second"],
        outputs=["tab.label"],
        api_name="p",
    )
    tick, now = polls(frame)
    answers = [tick(1, 0, {}, SimpleNamespace(session_hash=str(page))) for page in range(50)]
    paces = [json.loads(news)[INTERVAL] for news, _ in answers]
    assert asked == [{"tab.second": 1}]
    # The first gets its pace, too: it may have been slowed down by a server that is no more.
    assert paces[0] == 2 and paces[-1] == 13 and paces == sorted(paces)
    now(1, 0, {}, None)
    assert len(asked) == 2
