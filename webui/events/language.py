"""Events of the language panel in tab 1."""

from webui.events.wiring import Frame, Handler, wire
from webui.handlers import language

INPUTS = ("project.project", "project.language", "project.base", "language.corpus")
STARTS: dict[str, tuple[Handler, tuple[str, ...]]] = {
    "look": (language.look, ()),
    "extend": (language.extend, ("language.new_tokens",)),
    "latin": (language.latin, ()),
}


def wire_language(frame: Frame) -> None:
    """Look, extend, use what was made."""
    for name, (handler, needed) in STARTS.items():
        wire(
            frame,
            f"language.{name}:click",
            handler,
            inputs=[*INPUTS, *needed],
            outputs=["language.progress"],
            api_name=f"language_{name}",
        )
    wire(
        frame,
        "language.adopt:click",
        language.adopt,
        inputs=["project.project"],
        outputs=["project.base"],
        api_name="language_adopt",
    )
