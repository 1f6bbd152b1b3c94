"""Settings of the speech server."""

from dataclasses import dataclass
from pathlib import Path

from utils.options import ComputeDevice, SpeechPrecision
from utils.settings import Config

MAX_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class ServerConfig(Config):
    """Speak over HTTP."""

    host: str = "127.0.0.1"
    """Address to listen on. On any other than loopback, requests must bring an API key."""
    port: int = 8020
    """Port to listen on; 0 takes a free one."""
    wyoming_port: int | None = None
    """Port for Home Assistant (Wyoming protocol, which knows no keys), on the same address; 0 takes a free one."""
    output: Path = Path("output")
    """The folder that holds all projects."""
    model: str = ""
    """Model that is loaded at the start, and speaks where a request names none; the first one when not given."""
    language: str = "en"
    """Language of a request that names none, where the model has none of its own."""
    device: ComputeDevice = "auto"
    """Where to compute; auto takes a CUDA GPU that no training has. mps is Apple's GPU, in fp32, which we have not
    seen."""
    precision: SpeechPrecision = "auto"
    """Data type of the GPT's weights; fp32 is the reference, auto takes 16 bits where they are faster."""
    slots: int = 8
    """Sentences that a model decodes side by side."""
    max_requests: int = 64
    """Requests in progress at once; further ones are answered with 429."""
    max_characters: int = 20_000
    """Of a request's text."""
    max_upload_mb: int = 64
    """Of an uploaded recording."""
    max_model_gb: float | None = None
    """Memory for loaded models; 60 % of what is free at the start when not given."""
    unload_after: float = 0.0
    """Minutes without a request after which models are unloaded; 0 keeps them."""
    api_key: str = ""
    """API key, or @FILE with one a line; default: XTTS_STUDIO_API_KEY or XTTS_STUDIO_API_KEY_FILE. Without one, a
    server that others can reach makes one and prints it once."""
    trusted_host: tuple[str, ...] = ()
    """More host names of this server, such as behind a proxy."""
    alias: tuple[str, ...] = ()
    """Other names of models and voices, each NAME=MODEL or NAME=VOICE, such as tts-1=demo/ready alloy=anna."""
    allow_origin: tuple[str, ...] = ()
    """Pages of other sites that may ask, such as http://127.0.0.1:8000 for SillyTavern."""

    end_with_input: bool = False
    """End when standard input is closed: for a program that starts this one."""

    def problems(self) -> list[str]:
        wrong = [one for one in self.alias if not all(one.partition("="))]
        return self.beyond(_LIMITS) + [f"alias is {one!r}; use NAME=MODEL or NAME=VOICE" for one in wrong]


_ONE = ("[1, inf]", "", "1 or more")
_LIMITS = dict.fromkeys(("slots", "max_requests", "max_characters", "max_upload_mb"), _ONE) | {
    **dict.fromkeys(("port", "wyoming_port"), (f"[0, {MAX_PORT}]", "", f"0 (any free one) to {MAX_PORT}")),
    "unload_after": ("[0, inf]", "", "0 (never) or more minutes"),
    "max_model_gb": ("(0, inf]", "", "more than 0"),
}
