"""Bind a handler to events: values and updates by component id, errors as messages."""

import inspect
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from utils.errors import UserError
from webui import text
from webui.change import ROW, TOAST, Change, Updates, Values
from webui.forms import number
from webui.languages import speaking_as_asked
from webui.markup import lines
from webui.page import Page
from webui.pages import EVERY_S, SharedAnswers
from webui.registry import Registry, script_error
from webui.studio import Studio
from webui.text.catalog import language

Handler = Callable[[Studio, Values], Updates | Iterator[Updates]]
"""Returns new values, or gives them piece by piece while it works."""
INTERVAL = "interval"
"""Among the news of a poll: after how many seconds the page asks again; ids of components have a dot."""
QUIET: dict[str, Any] = {"public": False, "queue": False, "show_progress": False}
"""Options of `wire` for what the page asks by itself: it shows no message, and works unseen."""
UNSEEN: dict[str, Any] = {"show_progress": "hidden", "show_progress_on": []}
"""Options of what the server does without showing progress. Otherwise the browser keeps a state for each output, and
writes all such states at each step of any event, which was half of the work of opening the page."""
WARNING_S = 12
"""A warning leaves by itself after this many seconds."""
ANSWER = "answer"
"""Likewise: the number of this answer."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What wiring needs."""

    page: Page
    registry: Registry
    studio: Studio

    def trigger(self, trigger: str) -> Callable[..., Any]:
        """The event that a trigger names: "train.start:click"."""
        key, event = trigger.rsplit(":", 1)
        return getattr(self.registry[key], event)


def wire(
    frame: Frame,
    triggers: str,
    handler: Handler,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str],
    api_name: str,
    public: bool = True,
    queue: bool = True,
    show_progress: bool = True,
    with_row: bool = False,
    after: Any = None,
    **options: Any,
) -> Any:
    """Run `handler` on any of `triggers`; a fault that the user can fix becomes a message on the page.

    Args:
        frame: the page, its components and the app.
        triggers: events with spaces between; see `Frame.trigger`. Empty for what comes `after` another handler.
        handler: gets the app and the values of `inputs` by id, returns new values by id.
        inputs: ids, or patterns such as "train.*".
        outputs: ids the handler may return; other outputs stay as they are.
        api_name: the stable name under which scripts call it; its parameters are called like the inputs.
        public: whether the API's description shows it.
        queue: only what is queued can show messages; what cannot fail and must be quick need not wait.
        show_progress: on the first output that is no column, while the handler works.
        with_row: for the choice of a cell in a table: the handler gets its row as ROW.
        after: what `wire` returned for another handler: this one runs when that one was done without a fault.
        options: further arguments of `gradio.on`.

    Returns:
        gradio's dependency.
    """
    keys, shown = frame.registry.expand(inputs), frame.registry.expand(outputs)

    def pieces(values: Sequence[Any]) -> Iterator[Updates]:
        given = {key: _read(frame.registry[key], value) for key, value in zip(keys, values, strict=False)}
        if with_row:
            given[ROW] = getattr(values[-1], "row_value", None)
        found = handler(frame.studio, given)
        yield from found if isinstance(found, Iterator) else [found]

    def call_in_pieces(*values: Any) -> Iterator[dict[Any, Any]]:
        todo = pieces(values)
        while True:
            # Not around the `yield`: the next piece may be asked for in another thread.
            with speaking_as_asked():
                try:
                    updates = next(todo, None)
                except UserError as error:
                    todo, updates = iter(()), refused(error)
                if updates is None:
                    return
                assert isinstance(updates, dict), handler
                found = _components(frame, updates, shown)
            yield found

    def call(*values: Any) -> dict[Any, Any]:
        return next(call_in_pieces(*values))

    function = call_in_pieces if inspect.isgeneratorfunction(handler) else call
    written = [frame.registry[key] for key in shown]
    drawn = [one for one in written if isinstance(one, gr.components.Component)]
    seen = {"show_progress": "minimal", "show_progress_on": drawn[:1]}
    bind = after.success if after else partial(gr.on, triggers=[*map(frame.trigger, triggers.split())])
    return bind(
        fn=named(function, keys, gr.SelectData if with_row else None),
        inputs=[frame.registry[key] for key in keys],
        outputs=written,
        api_name=api_name,
        api_description=inspect.getdoc(getattr(handler, "func", handler)) or False,
        api_visibility="public" if public else "undocumented",
        queue=queue,
        preprocess=False,
        **(seen if show_progress else UNSEEN) | options,
    )


def wire_poll(
    frame: Frame,
    triggers: str,
    handler: Handler,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    api_name: str,
) -> None:
    """Run `handler` again and again; what is as it was when this browser asked last is not sent again.

    gradio describes each output of an event again, whether it changes or not. So the browser writes the outputs: the
    answer is one text, which holds what changed by id.

    An answer may be lost on its way: each that holds something new has a number, which the page gives back when it asks
    again. Where that is not the last one, the page is sent everything again.

    Only a poll may write its `outputs`, or who writes what the poll would: it would not notice that something else
    changed them. Pages that show the same share an answer for a second, and ask less often the more of them are open
    (`webui.pages`).

    Args:
        frame: the page, its components and the app.
        triggers: what wants an answer for certain and at once, such as the choice of another project.
        handler: must not raise UserError: a message every few seconds helps no user. It gives choices as gradio sends
            them, each a name and a value.
        inputs: ids, or patterns.
        outputs: ids the handler may return.
        api_name: name of the endpoint, which scripts have no use for.
    """
    keys, shown = frame.registry.expand(inputs), frame.registry.expand(outputs)
    seen, timer = gr.State({}), gr.Timer(EVERY_S)
    had = gr.Number(0, visible="hidden", label=ANSWER)
    # Not from 1: a page that is older than this process must not be taken for one that has its answers.
    numbers = count(int(time.time() * 1_000))
    answers: SharedAnswers[dict[str, str]] = SharedAnswers()

    def ask(*values: Any) -> tuple[str, dict[str, str]]:
        return answer(*values, fresh=False)

    def ask_now(*values: Any) -> tuple[str, dict[str, str]]:
        return answer(*values, fresh=True)

    def made(given: Sequence[Any]) -> dict[str, str]:
        updates = handler(frame.studio, dict(zip(keys, given, strict=True)))
        assert isinstance(updates, dict) and updates.keys() <= set(shown), handler
        return {key: json.dumps(_update(value)) for key, value in updates.items()}

    def answer(*values: Any, fresh: bool) -> tuple[str, dict[str, str]]:
        *given, number, remembered, request = values
        known = remembered if remembered.get(ANSWER) == str(number) else {}
        pages, page = frame.studio.pages, str(getattr(request, "session_hash", ""))
        question = pages.begin(page)
        with speaking_as_asked():
            parts = answers.get((language(), repr(given)), partial(made, given), fresh=fresh)
        parts = {**parts, INTERVAL: str(pages.interval(page))}
        new = {key: part for key, part in parts.items() if known.get(key) != part}
        if not pages.is_newest(page, question):
            # What the newer answer remembers stays.
            return "", gr.skip()
        if not new:
            return "", remembered
        new[ANSWER] = str(next(numbers))
        return "{" + ", ".join(f"{json.dumps(key)}: {part}" for key, part in new.items()) + "}", known | new

    written = {key: frame.registry[key] for key in shown} | {INTERVAL: timer, ANSWER: had}
    for suffix, mode, function, events in (
        ("", "once", ask, None),
        ("_now", "always_last", ask_now, triggers),
    ):
        # One each: an answer to the one must not replace what the browser has not written yet of the other.
        news = gr.Textbox(visible="hidden", label="news")
        asked = gr.on(
            triggers=[timer.tick] if events is None else [*map(frame.trigger, events.split())],
            fn=named(function, [*keys, "poll.had", "poll.seen"], gr.Request),
            inputs=[*(frame.registry[key] for key in keys), had, seen],
            outputs=[news, seen],
            api_name=api_name + suffix,
            api_visibility="private",
            queue=False,
            trigger_mode=mode,  # type: ignore[arg-type]
            **UNSEEN,
        )
        spread(asked, news, written)


def spread(answered: Any, news: Any, components: dict[str, Any]) -> None:
    """Have the browser write what an answer holds to the components that it names.

    Args:
        answered: gradio's dependency, which writes to `news`.
        news: a text: values by key as JSON, or nothing.
        components: by key.
    """
    keys = json.dumps(list(components))
    # Not after a fault: what was written before would be written again.
    answered.success(
        None,
        inputs=[news],
        outputs=list(components.values()),
        js=f"news => (found => {keys}.map(key => found[key]))(JSON.parse(news || '{{}}'))",
        api_visibility="private",
        **UNSEEN,
    )


def _read(component: Any, value: Any) -> Any:
    """A component's value as a handler gets it: gradio's own error for what is no number names no field.

    Raises:
        UserError: it is of another kind, such as a text where a number belongs.
    """
    label = str(component.label)
    if isinstance(component, gr.Number | gr.Slider):
        return number(label, value, is_whole=component.precision == 0)
    try:
        if value is not None and component.data_model is not None:
            value = component.data_model.model_validate(value)
        return component.preprocess(value)
    except (ValueError, TypeError, LookupError, AttributeError, OSError) as error:
        # The value stays out of the message: it may be markup, or a path of this computer.
        raise UserError(what=f"{label} was given a value of another kind", fix="see the API's description") from error


def refused(error: UserError) -> Updates:
    """Show a UserError as a warning on the page, where nothing changes; a script gets it as an error.

    gradio marks every output of a failed event with "Error", so a page's event must not fail. What was not queued has
    no way to show a warning.

    Raises:
        gradio.Error: for scripts.
    """
    event = LocalContext.request.get(None)
    # A browser names the page that it asks from; gradio's clients and curl do not.
    is_page = event is not None and event.request is not None and "referer" in event.request.headers
    if not is_page or LocalContext.event_id.get(None) is None:
        raise script_error(error) from error
    gr.Warning(lines(text.on_page(error)), duration=WARNING_S)
    return {}


def named(function: Callable[..., Any], keys: Sequence[str], event: type | None = None) -> Callable[..., Any]:
    """The function with parameters called like the last part of each id, which the API shows to scripts.

    A setting's component is "train.set_seed", and its parameter is called like the setting: seed.

    Raises:
        ValueError: two ids would give the same name.
    """
    names = [key.rsplit(".", 1)[-1].removeprefix("set_") for key in keys]
    if len(set(names)) < len(names):
        raise ValueError(f"two inputs share a name: {sorted(names)}")
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind, default=None) for name in names]
    if event is not None:
        # gradio looks for its event data among the annotations.
        function.__annotations__ = {"event": event}
        parameters.append(inspect.Parameter("event", kind, default=None, annotation=event))
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _components(frame: Frame, updates: Updates, allowed: Sequence[str]) -> dict[Any, Any]:
    """New values by component."""
    updates = dict(updates)
    message = updates.pop(TOAST, "")
    if message:
        gr.Info(lines(message), duration=8)
    assert updates.keys() <= set(allowed), updates.keys() - set(allowed)
    # An empty dict would be taken for the value of a component.
    unchanged = {frame.registry[key]: gr.skip() for key in allowed[:1]}
    return unchanged | {frame.registry[key]: _update(value) for key, value in updates.items()}


def _update(value: Any) -> Any:
    """A component's new value, or gradio's form of its new properties."""
    return gr.update(**value) if isinstance(value, Change) else value
