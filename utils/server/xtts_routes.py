"""The routes of daswer123/xtts-api-server, as SillyTavern's XTTS extension uses them.

Clients send numbers as strings, and paths with and without a slash at the end.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from utils.errors import disk_errors
from utils.files import write_atomic
from utils.inference.generation import RequestError
from utils.options import SpeechSettings
from utils.server.api import SpeechApi, files_of, read_json, response
from utils.speech.voice_library import DEFAULT_VOICE
from utils.text.languages import plain_code

LANGUAGES = {
    "Arabic": "ar",
    "Brazilian Portuguese": "pt",
    "Chinese": "zh-cn",
    "Czech": "cs",
    "Dutch": "nl",
    "English": "en",
    "French": "fr",
    "German": "de",
    "Italian": "it",
    "Polish": "pl",
    "Russian": "ru",
    "Spanish": "es",
    "Turkish": "tr",
    "Japanese": "ja",
    "Korean": "ko",
    "Hungarian": "hu",
    "Hindi": "hi",
}
"""Names that these clients show; other languages of a model are shown by their codes."""
NAMED_LANGUAGES = {name.lower(): code for name, code in LANGUAGES.items()}
REAL, WHOLE = ("temperature", "speed", "repetition_penalty", "top_p"), ("top_k",)
UNUSED: dict[str, Any] = {"length_penalty": 1.0, "stream_chunk_size": 100, "enable_text_splitting": True}
"""Settings that are kept and have no effect: no beams are searched, and texts are always split."""
LEAST = {"top_p": 0.01}
"""A slider of the extension goes to 0, which would leave no code to choose."""
SETTINGS_FILE = ".speech-settings.json"
"""What clients set, in the output folder: the same for all replicas of a server, and after a restart."""
DEFAULTS: dict[str, Any] = {name: getattr(SpeechSettings(), name) for name in (*REAL, *WHOLE)} | UNUSED

log = logging.getLogger(__name__)


def read_settings(path: Path) -> dict[str, Any]:
    """How to speak where a request does not say; the defaults where the file is missing or damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(kept, dict):
            raise ValueError("not a JSON object")
        return DEFAULTS | {name: kept[name] for name in UNUSED if name in kept} | numbers(kept)
    except FileNotFoundError:
        return dict(DEFAULTS)
    except (OSError, ValueError, RequestError) as error:
        log.warning("%s cannot be read, the default settings are used: %s", path, error)
        return dict(DEFAULTS)


@disk_errors()
def change_settings(path: Path, values: dict[str, Any]) -> None:
    """Keep some settings.

    Raises:
        UserError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(read_settings(path) | values))


def add_routes(application: FastAPI, api: SpeechApi) -> None:
    """All of them, each with and without a slash at the end."""
    output = api.service.output
    settings = output / SETTINGS_FILE

    def speakers() -> list[dict[str, str]]:
        return [{"name": name, "voice_id": name, "preview_url": ""} for name in api.voices()]

    def languages() -> dict[str, Any]:
        codes = files_of(api.find()).languages
        known = {name: code for name, code in LANGUAGES.items() if plain_code(code) in codes}
        others = {code: code for code in codes if code not in map(plain_code, known.values())}
        return {"languages": known | others}

    def folders() -> dict[str, str]:
        # Paths of this computer are not shown.
        return {"speaker_folder": "", "output_folder": "", "model_folder": ""}

    def get_settings() -> dict[str, Any]:
        return read_settings(settings)

    async def set_settings(request: Request) -> dict[str, str]:
        values = await read_json(request)
        unused = {name: values[name] for name in UNUSED if name in values}
        api.checked({"text": "a", **numbers(values)})
        await run_in_threadpool(change_settings, settings, numbers(values) | unused)
        return {"message": "Settings successfully applied"}

    async def spoken(request: Request, values: dict[str, Any], *, stream: bool) -> Response:
        kept = await run_in_threadpool(read_settings, settings)
        own = {name: kept[name] for name in (*REAL, *WHOLE)} | numbers(values)
        voice = str(values.get("speaker_wav") or DEFAULT_VOICE)
        language = str(values.get("language") or "auto").lower()
        code = None if language == "auto" else NAMED_LANGUAGES.get(language, language)
        wanted = own | {"text": values.get("text"), "voice": voice, "language": code, "stream": stream}
        return await response(await api.speak(request.receive, wanted), "wav")

    async def to_audio(request: Request) -> Response:
        return await spoken(request, await read_json(request), stream=False)

    async def stream(request: Request) -> Response:
        return await spoken(request, dict(request.query_params), stream=True)

    handlers: list[tuple[str, Callable[..., Any], str]] = [
        ("/speakers", speakers, "GET"),
        ("/speakers_list", api.voices, "GET"),
        ("/languages", languages, "GET"),
        ("/get_folders", folders, "GET"),
        ("/get_tts_settings", get_settings, "GET"),
        ("/set_tts_settings", set_settings, "POST"),
        ("/tts_to_audio", to_audio, "POST"),
        ("/tts_stream", stream, "GET"),
    ]
    for path, handler, method in handlers:
        application.add_api_route(path, handler, methods=[method], response_model=None)
        application.add_api_route(path + "/", handler, methods=[method], response_model=None, include_in_schema=False)


def numbers(values: dict[str, Any]) -> dict[str, float | int]:
    """The settings among a request's values, of which clients send some as strings.

    Raises:
        RequestError: one is no number.
    """
    found: dict[str, float | int] = {}
    for name in (*REAL, *WHOLE):
        if name in values:
            try:
                number = float(values[name])
                found[name] = int(number) if name in WHOLE else max(number, LEAST.get(name, number))
            except (TypeError, ValueError, OverflowError) as error:
                raise RequestError(what=f"{name} is {values[name]!r}; use a number", param=name) from error
    return found
