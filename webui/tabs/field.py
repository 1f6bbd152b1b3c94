"""Create a component for one setting: label and help from the texts, kind and default from the dataclass."""

from typing import Any

import gradio as gr
from gradio.blocks import Block

from webui import text
from webui.fields import Field
from webui.forms import shown

Parts = dict[str, Block]
"""Components of a tab by name."""


def html(elem_id: str, **options: Any) -> gr.HTML:
    """A part of the page that handlers fill."""
    return gr.HTML(elem_id=elem_id, **options)


def button(words: str, elem_id: str, **options: Any) -> gr.Button:
    """A button, which tests and styles know by its id."""
    return gr.Button(words, elem_id=elem_id, **options)


def dropdown(label: str, elem_id: str | None = None, **options: Any) -> gr.Dropdown:
    """A choice among what handlers find. Scripts name what this page has not listed, so any value may be sent."""
    options = {"choices": [], "value": None, **options}
    return gr.Dropdown(allow_custom_value=True, label=label, elem_id=elem_id, **options)


def hidden(label: str, **options: Any) -> gr.Textbox:
    """A text that scripts and handlers see, and people do not."""
    return gr.Textbox("", visible="hidden", elem_classes=["internal"], label=label, **options)


def create_field(field: Field, **options: Any) -> Block:
    """The component of a setting.

    Args:
        field: what the dataclass says about it.
        options: further arguments of the component.
    """
    common: dict[str, Any] = {"label": text.label(field.name), "info": text.HELPS.get(field.name)}
    common |= {"elem_id": f"set-{field.name}".replace("_", "-"), **options}
    value = shown(field, field.default)
    if field.kind == "bool" and not field.may_be_open:
        return gr.Checkbox(bool(value), **common)
    if field.kind in ("choice", "bool"):
        names = field.choices or ("True", "False")
        choices = [(text.choice(name), name) for name in names]
        choices = [(text.OPEN, ""), *choices] if field.may_be_open else choices
        return gr.Dropdown(choices, value="" if value is None else value, filterable=False, **common)
    if field.kind == "int" and not field.may_be_open:
        return gr.Number(value, precision=0, **common)
    # Text rather than a number field: 5e-6 stays as it was written, and an empty one is no 0.
    return gr.Textbox(
        "" if value is None else str(value),
        placeholder=text.when_empty(field.name) if field.may_be_open else None,
        **common,
    )
