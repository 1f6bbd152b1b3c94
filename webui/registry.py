"""Every component of the page by its id, "tab.component"."""

from typing import Any

from gradio.blocks import Block


class Registry:
    """Maps ids to components; an id belongs to one component for good."""

    def __init__(self) -> None:
        self._components: dict[str, Block] = {}

    def add(self, tab: str, components: dict[str, Block]) -> None:
        """Register the components of one tab under "tab.name".

        Raises:
            ValueError: an id is taken already.
        """
        for name, component in components.items():
            key = f"{tab}.{name}"
            if key in self._components:
                raise ValueError(f"component id {key!r} is used twice")
            self._components[key] = component

    def __getitem__(self, key: str) -> Any:
        """The component with this id, typed Any because each kind has its own events; KeyError when there is none."""
        return self._components[key]
