"""Whether an exported model speaks worse than the base that it was made from: another process has both speak."""

import logging
import math
import random
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from utils.bases.find import run_base
from utils.callbacks import ProgressFn
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import iter_manifest
from utils.errors import UserError
from utils.inference.device import held_device
from utils.jobs.json_lines import Message
from utils.jobs.measuring import COMMAND, measure_speech, skipped
from utils.project.paths import Project

LEAST_TEXTS, MOST_TEXTS = 12, 20
"""With fewer, chance decides; more only take longer."""
LONGEST_S = 300.0
CLEARLY = 2.0
"""Standard errors between two shares that differ by more than chance: 1 model in 44 like its base has such a share."""
POOL = 200
"""Training clips whose texts are put together."""
SHARES = ("words", "flawless")

log = logging.getLogger(__name__)


def compare_with_base(
    run: Path,
    model: Path,
    project: Project,
    config: ExportConfig,
    progress: ProgressFn,
    *,
    command: Sequence[str] = COMMAND,
) -> dict[str, Any]:
    """What about.json says of the speech of a model and its base; the log says it, too, and warns where it is worse.

    Nothing that goes wrong here fails the export: what was not compared is said, with the reason.

    Args:
        run: the run's folder.
        model: folder of the exported model, complete.
        project: where the run's dataset is, unless its settings name another.
        config: of the export; whether to compare, and the device.
        progress: called with (phase, texts spoken, in all).
        command: program and arguments of the comparing process; given for tests.

    Returns:
        {texts, is_worse, recognizer, base: shares, model: shares} with shares {words, flawless} from 0 to 1: of texts
        whose words are right, and that have no defect, and with a recognizer {wer, cer}; or {texts: 0, reason}.
    """
    answer = _answer(run, model, project, config, progress, command)
    if answer["kind"] != "measured":
        level = logging.WARNING if answer["kind"] == "failed" else logging.INFO
        log.log(level, "how the model speaks beside its base was not measured: %s", answer["reason"])
        return {"texts": 0, "reason": answer["reason"]}
    found = {key: answer[key] for key in ("texts", "base", "model")} | {"recognizer": answer.get("recognizer")}
    found["is_worse"] = is_worse(found)
    if found["is_worse"]:
        log.warning("this model speaks clearly worse than its base: %s", comparison_line(found))
    else:
        log.info("beside its base the model has %s", comparison_line(found))
    return found


def comparison_line(found: dict[str, Any]) -> str:
    """The shares of a comparison in words."""
    model, base, texts = found["model"], found["base"], found["texts"]

    def counts(name: str) -> str:
        return f"{round(model[name] * texts)} of {texts} texts (base {round(base[name] * texts)})"

    line = f"the right words in {counts('words')}, no defect in {counts('flawless')}"
    if found.get("recognizer"):
        line += f", a word error rate of {model['wer']:.0%} (base {base['wer']:.0%})"
    return line


def is_worse(found: dict[str, Any]) -> bool:
    """Whether a share of the model is below the base's by more than chance explains.

    Source: Agresti and Caffo 2000: the difference of two shares after one success and one failure were added to each.
    """

    def share(who: str, name: str) -> float:
        value: float = (found["texts"] * found[who][name] + 1) / (found["texts"] + 2)
        return value

    for name in SHARES:
        model, base = share("model", name), share("base", name)
        error = math.sqrt((model * (1 - model) + base * (1 - base)) / (found["texts"] + 2))
        if base - model > CLEARLY * error:
            return True
    return False


def new_texts(texts: Iterable[str], eval_texts: Iterable[str]) -> list[str]:
    """Texts that the fine-tuned model was not trained on.

    The evaluation clips' own come first; where they are too few, halves of training texts are put together. These
    need no list of sentences in each language, and a model that has memorized the clips continues with the wrong half.

    Args:
        texts: of the training clips, in their order.
        eval_texts: of the evaluation clips.
    """
    known = dict.fromkeys(texts)
    pool = list(known)[:POOL]
    found = dict.fromkeys(text for text in eval_texts if text not in known)
    random.Random(0).shuffle(pool)
    for first, second in zip(pool, [*pool[1:], *pool[:1]], strict=True):
        joined = _halves(first)[0] + _halves(second)[1]
        if joined not in known:
            found.setdefault(joined)
    return list(found)[:MOST_TEXTS]


def _halves(text: str) -> tuple[str, str]:
    """A text divided between two words, or two characters where no spaces divide words; the space is the first's."""
    words = text.split()
    if len(words) > 1:
        return " ".join(words[: len(words) // 2]) + " ", " ".join(words[len(words) // 2 :])
    return text[: len(text) // 2], text[len(text) // 2 :]


def _answer(
    run: Path, model: Path, project: Project, config: ExportConfig, progress: ProgressFn, command: Sequence[str]
) -> Message:
    if not config.compare:
        return skipped("it was switched off")
    if not run_base(run).can_speak:
        return skipped("the base does not speak")
    settings = TrainConfig.load(run / "config.yaml")
    try:
        train, held_out = settings.train_csv or project.train_csv, settings.eval_csv or project.eval_csv
        texts = new_texts(*((clip.text for clip in iter_manifest(csv)) for csv in (train, held_out)))
        language = settings.language or project.language()
    except (UserError, OSError) as error:
        return skipped(f"the dataset cannot be read: {error.what if isinstance(error, UserError) else error}")
    if len(texts) < LEAST_TEXTS:
        return skipped(f"{len(texts)} texts are too few, it takes {LEAST_TEXTS}")

    with ExitStack() as stack:
        return measure_speech(
            run,
            model=model.absolute(),
            texts=texts,
            language=language,
            device=_device(stack, project, config),
            least_texts=LEAST_TEXTS,
            seconds=LONGEST_S,
            command=command,
            on_progress=partial(progress, "comparing with the base"),
        )


def _device(stack: ExitStack, project: Project, config: ExportConfig) -> str:
    """cuda while it is held, cpu where there is none or another job has it."""
    try:
        held = held_device("export", config.device, output=project.output, folder=project.folder)
        return stack.enter_context(held)
    except UserError as error:
        log.info("the comparison with the base runs on the CPU: %s", error.what)
        return "cpu"
