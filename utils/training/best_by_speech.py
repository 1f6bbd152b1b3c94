"""Choose a run's best checkpoint by how it speaks: another process has them speak evaluation texts and measures it.

score = share of right words + share of sentences without a defect + mean speaker similarity, 0 to 3. Words are a
recognizer's where one is installed; else a sentence counts that is nearest to its own recording among all.
The evaluation loss only decides between equal scores: the lowest one does not pick the best speech.
"""

import logging
import math
import time
from collections.abc import Sequence
from typing import Any

from utils.dataset.storage.manifest import iter_manifest
from utils.errors import UserError
from utils.jobs.measuring import COMMAND, measure_speech, skipped
from utils.runs.layout import checkpoints_of
from utils.runs.log import number_of, read_events
from utils.training.checkpointing import Services

SHARE = 0.1
"""Of the time that this process has trained: the limit of measuring."""
SHORTEST_S, LONGEST_S = 20.0, 3_600.0
"""A shorter budget would be spent on starting the process. The other processes of a run wait for the first one."""
LEAST_TEXTS, MOST_TEXTS = 4, 40
"""Sentences of each checkpoint: with fewer, chance decides; more say little more."""

log = logging.getLogger(__name__)


def choose_best(services: Services, *, trained_s: float, command: Sequence[str] = COMMAND) -> None:
    """Make the checkpoint that speaks best the run's best; where that cannot be measured, the log says why.

    Nothing that goes wrong here fails the run: the checkpoint of the lowest evaluation loss then stays the best.

    Args:
        services: of the run, all whose checkpoints are written.
        trained_s: how long this process has trained.
        command: program and arguments of the measuring process; given for tests.
    """
    config, folder = services.plan.config, services.folder
    if config.best_by != "speech" or not services.is_writer:
        return
    budget_s, begun = min(SHARE * trained_s, LONGEST_S), time.monotonic()
    # The best by loss, the last, and older ones that were kept, the newest first; each step once.
    found = [one for one in reversed(checkpoints_of(folder)) if one.is_complete]
    candidates = [one for one in found if one.is_best][:1]
    candidates += [one for one in found if not one.is_best and one.step not in {best.step for best in candidates}]
    clips = _clips(services)
    why_not = {
        "the base does not speak": not services.plan.base.can_speak,
        "there is one checkpoint only": len(candidates) < 2,
        f"{len(clips)} evaluation texts are too few, it takes {LEAST_TEXTS}": len(clips) < LEAST_TEXTS,
        f"a tenth of the training time is {budget_s:.0f} s, it takes {SHORTEST_S:.0f} s or more": budget_s < SHORTEST_S,
    }
    reason = next((words for words, applies in why_not.items() if applies), "")
    answer = skipped(reason)
    if not reason:
        log.info("measuring how %d checkpoints speak, for %.0f s at most", len(candidates), budget_s)
        services.trainer.release_memory()
        answer = measure_speech(
            folder,
            checkpoints=[one.path.absolute() for one in candidates],
            clips=clips,
            language=config.language,
            device=str(services.trainer.device),
            least_texts=LEAST_TEXTS,
            seconds=budget_s,
            command=command,
            is_stopped=lambda: services.stop.number is not None,
        )
    spent = {"seconds": time.monotonic() - begun, "budget_s": budget_s}
    if answer["kind"] != "measured":
        if answer["kind"] == "failed":
            services.log.warn(
                f"how the checkpoints speak was not measured, the best one stays as it was: {answer['reason']}",
                source="speech",
            )
        services.log.write("speech_scores", scores=[], best=None, reason=answer["reason"], **spent)
        return
    evals = read_events(folder / "events.jsonl", kind="eval")
    losses = {event["step"]: loss for event in evals if (loss := number_of(event, "loss")) is not None}
    winner = max(answer["scores"], key=lambda one: (one["score"], -losses.get(one["step"], math.inf)))["step"]
    chosen = next(one for one in candidates if one.step == winner)
    services.log.write(
        "speech_scores",
        scores=answer["scores"],
        texts=answer["texts"],
        recognizer=answer.get("recognizer"),
        best=chosen.step,
        reason=None,
        **spent,
    )
    if chosen.is_best:
        return
    try:
        path = services.checkpoints.link_best(chosen.path, loss_to_beat=services.saver.best_loss)
    except (UserError, OSError) as error:
        services.log.warn(
            f"step {chosen.step} speaks best, but could not become the best checkpoint: {error}", source="speech"
        )
        return
    services.log.write("checkpoint", step=chosen.step, path=str(path), what="best")


def _clips(services: Services) -> list[dict[str, Any]]:
    """Evaluation clips of the voice that reference.wav has, each text once."""
    assert services.plan.config.eval_csv
    speaker = services.data.longest.speaker
    usable = {clip.audio for clip in services.data.evaluate if clip.speaker == speaker}
    texts = {clip.text: clip.audio for clip in iter_manifest(services.plan.config.eval_csv) if clip.audio in usable}
    return [{"text": text, "audio": str(audio)} for text, audio in texts.items()][:MOST_TEXTS]
