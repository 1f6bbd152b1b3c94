"""The process that speaks for the page, and for a training: python -m utils.inference.worker --device cpu|cuda.

It reads requests from its input and answers on its output, one JSON object a line; see `utils.speech.worker_client`.
The last model stays loaded; another checkpoint of the same base only brings its own GPT weights. The process ends with
its input.
"""

import argparse
import base64
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from utils.console import take_output
from utils.errors import UserError, disk_errors, is_out_of_memory
from utils.inference.generation import Generation, SpeechCounts, SpeechRequest
from utils.jobs.json_lines import Message
from utils.jobs.replies import Replies, Requests
from utils.options import OUTPUT_RATE
from utils.speech.models import SpeakingModel
from utils.speech.takes import join_wavs
from utils.speech.voice_library import DEFAULT_VOICE
from utils.text.marks import voices_in

if TYPE_CHECKING:
    from utils.inference.batch import Spoken
    from utils.inference.engine import Synthesizer
    from utils.inference.model_cache import ModelCache

log = logging.getLogger(__name__)

REFERENCE = "reference"
"""What the voice of a take's own recording is called."""
Reply = Callable[..., None]
"""Called with the kind of the answer and its fields."""


def main() -> None:
    """Serve requests until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to compute")
    device = parser.parse_args().device
    replies, requests = Replies(take_output()), Requests(sys.stdin)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    # Imported late: loading takes seconds, in which the end of the web app must be noticed.
    from utils.inference.model_cache import ModelCache

    models = ModelCache(device)
    for request in requests:
        serve(request, models, replies, partial(requests.cancelled.__contains__, request["id"]))


def serve(request: Message, models: "ModelCache", replies: Replies, is_cancelled: Callable[[], bool]) -> None:
    """Do one request; every request ends with one of done, cancelled or failed."""
    reply = partial(replies.send, id=request["id"])
    try:
        with disk_errors():
            is_whole = speak(request, models, _load(request, models, reply), reply, is_cancelled)
    except UserError as error:
        reply("failed", error=str(error))
    except Exception as error:
        log.exception("request %s", request["id"])
        fault = f"{type(error).__name__}: {error}"
        if is_out_of_memory(error):
            models.clear()  # the next request, of a smaller model or on a freer device, may have room
            fix = "close other programs, or speak on the CPU"
            fault = str(UserError(what="the device has too little free memory for this model", fix=fix))
        reply("failed", error=fault)
    else:
        reply("done" if is_whole else "cancelled")


def _load(request: Message, models: "ModelCache", reply: Reply) -> "Synthesizer":
    model = models.load(**request["model"])
    facts = {"device": str(model.device), "precision": model.precision, "checkpoint": model.checkpoint}
    reply("loaded", **facts, speakers=sorted(model.speakers()))
    return model


def speak(
    request: Message, models: "ModelCache", model: "Synthesizer", reply: Reply, is_cancelled: Callable[[], bool]
) -> bool:
    """Write the wavs of every line; a line that cannot be spoken does not keep the others from it.

    Lines that someone listens to are streamed: their chunks are replies, too, and the guards repair quiet tails only.

    Returns:
        Whether it was not cancelled.

    Raises:
        UserError: the voice or the language cannot be used, or the disk is full.
        Exception: whatever the device says.
    """
    from utils.inference.speaking import Engine, find_voice, named_voices

    settings, library = request["settings"], Path(request.get("output", ""))
    language = settings["language"] or model.language
    if not language:
        raise UserError(what="this model does not say which language it speaks", fix="choose the language")
    model.tokenizer.check_language(language)
    references = {REFERENCE: Path(request["reference"])} if request.get("reference") else {}
    name_of_voice = REFERENCE if references else request.get("speaker") or DEFAULT_VOICE
    # Before the first line is spoken: a voice that is missing, also in a later one.
    voice = find_voice(model, name_of_voice, recordings=references, has_files=False)
    named_voices(model, library, sorted({name for line in request["lines"] for name in voices_in(line["text"])}))
    engine = Engine(models, library, end=Generation.end, counts=SpeechCounts())
    for line in request["lines"]:
        asked = SpeechRequest(**settings, text=line["text"], voice=name_of_voice, stream=request.get("live", False))
        generation = Generation(asked, ("", SpeakingModel(id="", **request["model"])), references=references)
        output = _Output(generation, Path(request["folder"]), line["number"], reply)
        generation.on_spoken = output.add
        try:
            engine.begin(generation, model, language, voice)
        except UserError as error:
            reply("line_failed", line=line["number"], error=str(error))
            continue
        try:
            while not generation.is_ended:
                if is_cancelled():
                    return False
                engine.step(model)
                output.send_chunks()
        finally:
            if not generation.is_ended:
                engine.drop(model, generation)
        if generation.error is not None:
            raise generation.error
        output.join()
    return True


class _Output:
    """Replies and wavs of a line."""

    def __init__(self, generation: Generation, folder: Path, line: int, reply: Reply) -> None:
        self._generation, self._folder, self._line, self._reply = generation, folder, line, reply
        self._parts: list[Path] = []
        self._begun = time.perf_counter()

    def send_chunks(self) -> None:
        for pcm in self._generation.take():
            if self._generation.request.stream:
                self._reply("chunk", pcm=base64.b64encode(pcm).decode("ascii"))

    def add(self, sentence: "Spoken") -> None:
        from utils.audio.write import write_wav

        # What comes later belongs to the next sentence.
        self.send_chunks()
        part = self._folder / f"{self._line:04}-{len(self._parts) + 1:03}.wav"
        write_wav(part, sentence.wav, OUTPUT_RATE)
        self._parts.append(part)
        facts = sentence._asdict() | {"attempts": [attempt._asdict() for attempt in sentence.attempts]}
        audio_s, took_s = facts.pop("wav").shape[1] / OUTPUT_RATE, time.perf_counter() - self._begun
        self._reply("sentence", line=self._line, file=part.name, audio_s=audio_s, took_s=took_s, **facts)
        self._begun = time.perf_counter()

    def join(self) -> None:
        whole = self._folder / f"{self._line:04}.wav"
        join_wavs(self._parts, whole)
        self._reply("line", line=self._line, file=whole.name)


if __name__ == "__main__":
    main()
