"""Create a component for one setting: label and help from the texts, kind and default from the dataclass."""

from typing import Any

import gradio as gr
from gradio.blocks import Block

from webui import text
from webui.fields import Field
from webui.forms import shown


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
