"""Takes, the worker and votes as HTML; every word that a user typed is escaped."""

import re
import time
from collections.abc import Sequence

from utils.server.child import Served
from utils.speech.compare import Tally, name_of
from utils.speech.takes import Line, Take, TakeSentence
from webui import text
from webui.markup import Markup, join, tag
from webui.views.parts import badge, fact_row, file_address, message, player, small

MAX_SHOWN = 60
"""Sentences and lines that are listed; of longer takes the newest."""
COLORS = {"finished": "good", "speaking": "live", "waiting": "live", "failed": "bad", "stopped": "off", "cut": "bad"}


def take(found: Take, *, sound: str | None = None) -> Markup:
    """A take as far as it is spoken.

    Args:
        found: the take.
        sound: where the page gets its sound, which it then plays, once for each address.
    """
    many = len(found.lines) > 1
    is_loading = found.state == "speaking" and not found.device
    facts = [text.take_facts(sounds_s=found.audio_s, first_s=found.first_sound_s, device=found.device)]
    facts = [] if is_loading else facts
    states = [line.state for line in found.lines]
    facts += [text.lines_done(states.count("finished"), states.count("failed"), len(states))] if many else []
    heading = tag(
        "div",
        badge(COLORS[found.state], text.LOADING_MODEL if is_loading else text.TAKE_STATES[found.state]),
        " ",
        tag("b", text.model_title(name_of(found))),
        " ",
        tag("span", " · ".join(facts), class_="small"),
    )
    note = message("hint" if found.state in ("finished", "stopped") else "error", text.take_message(found.message))
    pieces = _lines(found.lines) if many else _sentences(found.sentences)
    return tag("div", heading, note if found.message else None, pieces, class_="panel take", data_sound=sound)


def live_player() -> Markup:
    """The controls of live playback; player.js gives them life."""
    words = {"data_pause": text.PAUSE, "data_resume": text.PLAY_ON}
    button = tag("button", text.PAUSE, type="button", id="live-pause", disabled="", class_="plain", **words)
    return tag("div", tag("b", text.NOW_PLAYING), button, tag("span", id="live-time"), class_="player")


def listed(found: Take) -> Markup:
    """A take in the list: when, with which model, its first words, and a player for its first recording."""
    heading = small(label(found))
    if not found.wavs:
        return tag("div", heading, class_="player")
    words = found.name or found.lines[0].text
    voice = found.reference_name or found.speaker or name_of(found)
    file = re.sub(r"[^\w-]+", "-", f"{voice} {words}")[:60].strip("-") + ".wav"
    saved = tag("a", text.DOWNLOAD_TAKE, href=file_address(found.wavs[0]), download=file)
    return tag("div", heading, player(found.wavs[0], words[:80]), saved, class_="player")


def label(found: Take) -> str:
    """A take in a list."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.created))
    words = found.name or (found.lines[0].text if found.lines else "")
    words = words if len(words) <= 40 else words[:39] + "…"
    return f"{when} · {text.model_title(name_of(found))} · {text.TAKE_STATES[found.state]} · {words}"


def worker(state: str, device: str, waiting: int) -> Markup:
    """What the speaking process does."""
    words = text.WORKER_STATES[state] + (f" ({device})" if device else "") + text.waiting_takes(waiting)
    return tag("div", words, class_="small", role="status")


def server(state: str, served: Served | None, last_words: str) -> Markup:
    """The speech server: where it answers, and with which key."""
    if served is None:
        words = text.SERVER_STATES[state]
        return message("error", f"{words}\n{last_words}") if state == "ended" else tag("div", words, role="status")
    where = tag("code", served.address)
    key = tag("div", f"{text.SERVER_KEY}: ", tag("code", served.key)) if served.key else None
    return tag("div", tag("div", text.SERVER_STATES[state], " ", where), key, role="status")


def votes(tallies: Sequence[Tally]) -> Markup:
    """All votes of a project."""
    if not tallies:
        return small(text.NO_VOTES)
    rows = []
    for found in tallies:
        first, second = map(text.model_title, found.models)
        rows.append(tag("li", text.tally(first, second, found.wins, found.same, found.chance)))
    return tag("div", tag("b", text.VOTES), tag("ul", *rows))


def settings(found: Take) -> Markup:
    """How a take was spoken."""
    said = {name: value for name, value in vars(found.settings).items() if value is not None}
    voice = found.reference_name or found.speaker
    named = [(text.label(name), value) for name, value in said.items()] + ([(text.VOICE, voice)] if voice else [])
    return fact_row((f"{name}: {value}",) for name, value in named)


def _sentences(sentences: Sequence[TakeSentence]) -> Markup | None:
    rows = [
        tag("li", sentence.text, " ", tag("span", f"{sentence.audio_s:.1f} s", class_="small"), _faults([sentence]))
        for sentence in sentences[-MAX_SHOWN:]
    ]
    return tag("ol", *rows) if rows else None


def _lines(lines: Sequence[Line]) -> Markup | None:
    begun = [line for line in lines if line.state != "waiting" or line.sentences]
    rows = [
        tag(
            "li",
            line.text,
            " ",
            tag("span", line.error or f"{line.audio_s:.1f} s", class_="small"),
            _faults(line.sentences),
            value=line.number,
        )
        for line in begun[-MAX_SHOWN:]
    ]
    return tag("ol", *rows) if rows else None


def _faults(sentences: Sequence[TakeSentence]) -> Markup | None:
    """What the guards saw and did not repair."""
    is_cut = any(not sentence.finished for sentence in sentences)
    found = {fault for sentence in sentences for fault in sentence.faults}
    words = [badge("bad", text.CUT_SENTENCE)] if is_cut else []
    words += [badge("unknown", said) for fault, said in text.FAULTS.items() if fault in found]
    return join(*(piece for word in words for piece in (" ", word))) if words else None
