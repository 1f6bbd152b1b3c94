"""The process that synthesizes samples of a run while it trains.

It reads requests from its input and answers on its output, see `utils.jobs.json_lines`. A request is {step,
checkpoint, sentences, language}. The wavs go to runs/<id>/samples/; a reply `sample` follows each, then `finished`; or
`failed` with the reason; or `stopped` when the checkpoint was replaced before it was read.
"""

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from utils.console import take_output
from utils.errors import UserError
from utils.jobs.json_lines import Message, Replies, Requests
from utils.options import OUTPUT_RATE
from utils.training.samples import SAMPLES_FOLDER

if TYPE_CHECKING:
    from utils.inference.engine import Synthesizer

NICE = 10
SEED = 1
"""The same for every sample, so that they differ by their weights only."""

log = logging.getLogger(__name__)


class SampleSpeaker:
    """The run's model, loaded once and given new weights for each request.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._synthesizer: Synthesizer | None = None

    def speak(self, request: Message, replies: Replies) -> None:
        """Write the wavs of one request, with a reply for each.

        Raises:
            UserError: the checkpoint is gone or damaged, or a sentence cannot be read by this model.
            OSError: a wav cannot be written.
        """
        # Imported late, here and below: loading takes seconds, in which the end of the trainer must be noticed.
        from utils.audio.write import write_wav
        from utils.runs.layout import REFERENCE_FILE

        synthesizer = self._with_weights(Path(request["checkpoint"]))
        # The weights of training also hear the reference: its voice is another one after each evaluation.
        voice = synthesizer.voice(self._run / REFERENCE_FILE)
        for number, text in enumerate(request["sentences"], start=1):
            begun = time.perf_counter()
            wav = synthesizer.speak(text, language=request["language"], voice=voice, seed=SEED)
            path = Path(SAMPLES_FOLDER) / f"step-{request['step']:08d}-{number}.wav"
            write_wav(self._run / path, wav, OUTPUT_RATE)
            replies.send(
                "sample",
                step=request["step"],
                sentence=number,
                text=text,
                path=path.as_posix(),
                audio_s=wav.shape[1] / OUTPUT_RATE,
                took_s=time.perf_counter() - begun,
            )

    def _with_weights(self, checkpoint: Path) -> "Synthesizer":
        import torch

        from utils.bases.find import run_base
        from utils.inference.engine import Synthesizer
        from utils.runs.checkpoints import load_checkpoint

        torch.set_num_threads(1)
        state = load_checkpoint(checkpoint)
        if self._synthesizer is None:
            self._synthesizer = Synthesizer(run_base(self._run), gpt_state=state)
        else:
            # One whose renewal fails cannot speak: the next checkpoint loads all.
            synthesizer, self._synthesizer = self._synthesizer, None
            synthesizer.renew(state)
            self._synthesizer = synthesizer
        return self._synthesizer


def main() -> None:
    """Serve requests until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="the run's folder")
    run = parser.parse_args().run
    replies, requests = Replies(take_output()), Requests(sys.stdin)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    # The second name exists on Windows only.
    psutil.Process().nice(NICE if os.name == "posix" else getattr(psutil, "BELOW_NORMAL_PRIORITY_CLASS"))  # noqa: B009
    speaker = SampleSpeaker(run)
    for request in requests:
        serve(speaker, request, replies)


def serve(speaker: SampleSpeaker, request: Message, replies: Replies) -> None:
    """Speak, and say how it went; what fails here is a warning to training, nothing more."""
    step, checkpoint = request["step"], Path(request["checkpoint"])
    try:
        speaker.speak(request, replies)
    except Exception as error:
        log.exception("step %d", step)
        if checkpoint.is_dir():
            what = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            replies.send("failed", step=step, error=what)
        else:
            replies.send("stopped", step=step, error="its checkpoint was replaced before it was read")
    else:
        replies.send("finished", step=step)


if __name__ == "__main__":
    main()
