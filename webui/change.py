"""Component updates beyond the value, which handlers return without importing gradio."""

from typing import Any

Values = dict[str, Any]
"""Values of components by id, such as {"project.project": "maria"}."""
Updates = dict[str, Any]
"""New values, or a `Change`, by component id; TOAST is a message that fades."""
TOAST = "toast"
ROW = "row"
"""Id under which a handler gets the row of a table that was chosen."""


class Change:
    """New properties of a component by name: value, choices, visible, interactive, label, ..."""

    def __init__(self, **properties: Any) -> None:
        self.properties = properties

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Change) and other.properties == self.properties

    def __hash__(self) -> int:
        return hash(tuple(self.properties))

    def __repr__(self) -> str:
        return f"Change({self.properties})"
