"""Component updates beyond the value, which handlers return without importing gradio."""

from typing import Any

Values = dict[str, Any]
"""Values of components by id, such as {"project.project": "maria"}."""
Updates = dict[str, Any]
"""New values, or a `Change`, by component id; TOAST is a message that fades."""
TOAST = "toast"
ROW = "row"
"""Id under which a handler gets the row of a table that was chosen."""


class Change(dict[str, Any]):
    """New properties of a component by name: value, choices, visible, interactive, label, ..."""
