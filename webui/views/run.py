"""A run as the page shows it: progress, which optimizations are effective, curves, samples."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from utils.bases.catalog import read_about
from utils.config import TrainConfig
from utils.jobs import Job
from utils.jobs.run_queue import QueuedRun
from utils.runs.layout import REFERENCE_FILE, sample_file
from utils.runs.log import Event, number_of
from utils.runs.progress import Observation, Progress
from webui import text
from webui.fields import fields_of
from webui.forms import shown
from webui.markup import Markup, join, tag
from webui.views.chart import Curve, line_chart, smoothed
from webui.views.parts import (
    badge,
    bar,
    duration,
    empty,
    fact_row,
    file_address,
    framed,
    message,
    player,
    progress_bar,
    recording,
    state_badge,
    table,
)

Series = Mapping[str, list[Any]]
"""Figures by name, one of each a point of a curve."""
FIT_FIGURES = ("mel_distance", "similarity")
MAX_SAMPLE_STEPS = 4
"""This many evaluations' samples can be played on the page; all lie in the run's folder."""

LEAST_SHARE = 0.01
"""Shorter phases of a step are not named."""


def progress(
    job: Job,
    done: Progress | None,
    best: float | None = None,
    observed: Sequence[Observation] = (),
) -> Markup:
    """How far a job is, and how it ended.

    Args:
        job: the job.
        done: how far it is.
        best: lowest evaluation loss of a run.
        observed: what a run's events show.
    """
    heading = tag("div", state_badge(job.state), " ", text.run_title(job.kind, job.name), class_="run-title")
    words = text.sentences(text.ENDED.get(job.state, ""), job.message)
    kind = {"failed": "error", "lost": "error", "stopped": "hint"}.get(job.state, "warning")
    notes = [message(note.kind, text.observed(note)) for note in observed]
    # The page's script reads the last two: it notifies when a run ends.
    return tag(
        "div",
        heading,
        _bar(job, done, best),
        *notes,
        message(kind, _lines(words)) if words else None,
        class_="panel",
        data_run=f"{job.kind} {job.name}",
        data_state=job.state,
    )


def details(run: Path, started: Event | None, steps: Sequence[Event]) -> Markup:
    """Which settings a run got and from whom, its settings file, and where the time of its newest steps goes.

    Args:
        run: its folder.
        started: its first event.
        steps: its newest steps.
    """
    file = run / "config.yaml"
    link = tag("a", text.RUN_SETTINGS, href=file_address(file), download=f"{run.name}.yaml") if file.is_file() else None
    return tag("div", _phases(steps), _applied(started), link, class_="panel")


def _phases(steps: Sequence[Event]) -> Markup | None:
    """The mean time of steps as a bar of phases; nothing where no step reported them."""
    reported = [phases for event in steps if isinstance(phases := event.get("phases"), dict)]
    sums = {name: sum(number_of(phases, name) or 0.0 for phases in reported) for name in text.PHASES}
    total = sum(sums.values())
    if not total:
        return None
    pieces = [
        (f"phase-{name}", seconds / total, f"{text.PHASES[name]}: {seconds / total:.0%}")
        for name, seconds in sums.items()
    ]
    shares = [what for _, share, what in pieces if share >= LEAST_SHARE]
    return bar(text.TIME_BY_PHASE, pieces, f"{total / len(reported):.2f} s · {' · '.join(shares)}")


def _applied(started: Event | None) -> Markup | None:
    """Settings that were left open, with who chose them, and what the run computes in and on."""
    if started is None:
        return None
    config, sources = started.get("config"), started.get("sources")
    if not isinstance(config, dict) or not isinstance(sources, dict):
        return None
    known = fields_of(TrainConfig)
    applied = [
        (text.label(name), text.applied(str(shown(known[name], config.get(name))), str(source)))
        for name, source in sources.items()
        if name in known
    ]
    applied += [(words, str(started[key])) for key, words in text.STARTED_WORDS.items() if started.get(key) is not None]
    return fact_row((f"{name} ", tag("b", value)) for name, value in applied)


def _bar(job: Job, done: Progress | None, best: float | None) -> Markup | None:
    if done is None:
        return progress_bar(None, text.STARTING, text.STARTING_HELP) if job.alive else None
    share = done.share
    caption = text.count_of(done.done, done.total)
    if done.what == "training":
        caption = text.training_caption(done.done, done.total, done.epoch, done.epochs, best)
    # Not of a resumed run: what is known is when its last process began.
    if job.started and not job.events_offset and job.state != "lost":
        passed = max(0.0, (job.ended or time.time()) - job.started)
        caption += f" · {text.TIME_PASSED.format(duration=duration(passed))}"
    if done.seconds_left is not None:
        caption += f" · {text.TIME_LEFT.format(duration=duration(done.seconds_left))}"
    return progress_bar(share, text.phase(done.what), caption)


def _lines(words: str) -> Markup:
    return join(*(tag("div", line) for line in text.on_page(words).splitlines()))


def badge_of(switch: Mapping[str, Any] | None, *, is_short: bool = False) -> Markup:
    """What an optimization did in the run that is shown, from its proof alone.

    Args:
        switch: the proof.
        is_short: without what was observed; why something requested is off is always there.
    """
    if not isinstance(switch, Mapping) or switch.get("state") not in ("on", "off"):
        return badge("unknown", text.NOT_KNOWN)
    if switch["state"] == "on":
        return join(badge("on", text.ON), "" if is_short else _observed(switch.get("observed")))
    why = switch.get("reason") or switch.get("observed") or ""
    # A warning is for what was requested and is missing; what was not requested is off for no fault.
    is_requested = switch.get("asked", True) not in (False, 0, None, "none", "off", "fp32")
    mark = badge("off", text.OFF) if is_requested else badge("unknown", text.NOT_REQUESTED)
    return join(mark, _observed(why) if is_requested or not is_short else "")


def _observed(words: object) -> Markup:
    return join(" ", tag("span", words or "", class_="observed"))


def proofs(switches: Mapping[str, Any]) -> Markup:
    """Every switch: what was requested, and what the run really does."""
    if not switches:
        return empty(text.NO_PROOFS)
    rows = [
        (text.label(name), _asked(switch.get("asked")), badge_of(switch))
        for name, switch in switches.items()
        if isinstance(switch, Mapping)
    ]
    return table(text.PROOF_COLUMNS, rows, label=text.PROOFS)


def _asked(value: object) -> str:
    if isinstance(value, bool):
        return text.YES if value else text.NO
    return "" if value is None else text.choice(str(value))


def losses(
    train: Series,
    evaluated: Series,
    earlier: Mapping[str, Series] | None = None,
) -> Markup:
    """Training and evaluation loss by step; nothing when there is neither.

    Args:
        train, evaluated: curves of the run.
        earlier: curves of evaluation of other runs, by name, to compare with.
    """
    raw, evaluation = _points(train), _points(evaluated)
    smooth = smoothed(raw)
    if not raw and not evaluation:
        return join()
    curves = [
        Curve(name=name, points=_points(curve), color="others", is_faint=True)
        for name, curve in (earlier or {}).items()
    ]
    curves.append(Curve(name=text.TRAINING_LOSS, points=raw, is_faint=bool(smooth)))
    curves.append(Curve(name=text.SMOOTHED_LOSS, points=smooth))
    curves.append(Curve(name=text.EVALUATION_LOSS, points=evaluation, color="warn", has_dots=True))
    lowest = min(evaluation, key=lambda point: point[1], default=None)
    best = (text.LOWEST.format(loss=f"{lowest[1]:.3f}", step=int(lowest[0])), lowest) if lowest else None
    return line_chart(text.LOSS_PLOT, curves, x_title=text.STEP, y_title=text.LOSS, best=best)


def _points(curve: Series) -> list[tuple[float, float]]:
    pairs = zip(curve["step"], curve["loss"], strict=True)
    return [(step, round(loss, 4)) for step, loss in pairs if loss is not None]


def speeds(curve: Series) -> Markup:
    """Seconds of audio trained on in a second, by step."""
    points = [
        (step, round(audio / took, 2))
        for step, audio, took in zip(curve["step"], curve["audio_s"], curve["step_s"], strict=True)
        if audio is not None and took
    ]
    return line_chart(
        text.SPEED_PLOT,
        [Curve(name=text.AUDIO_A_SECOND, points=points)],
        x_title=text.STEP,
        y_title=text.AUDIO_A_SECOND,
        starts_at_zero=True,
    )


def queue(runs: Sequence[QueuedRun]) -> Markup:
    """The runs that wait, in their order, with what differs from the defaults, and why one was skipped."""
    if not runs:
        return join()
    rows = []
    for number, queued in enumerate(runs, start=1):
        state = tag("div", badge("live", text.QUEUED)) if not queued.fault else message("error", queued.fault)
        settings = ", ".join(f"{text.label(name)} {value}" for name, value in changed_from_defaults(queued.config))
        rows.append((str(number), queued.name, settings or text.ALL_DEFAULTS, state))
    shown = table(text.QUEUE_COLUMNS, rows, label=text.QUEUE)
    return framed(text.QUEUE, shown)


def changed_from_defaults(config: TrainConfig) -> list[tuple[str, str]]:
    """The settings of a run that are not their defaults, as the form shows them."""
    known = fields_of(TrainConfig)
    plain = TrainConfig(project=config.project, output=config.output, run_id=config.run_id)
    return [
        (name, str(shown(field, value)))
        for name, field in known.items()
        if (value := getattr(config, name)) != getattr(plain, name)
    ]


def samples(events: list[Event], run: Path) -> Markup:
    """What the run spoke at its evaluations, newest first, below the recorded voice and the same words by the base."""
    by_step: dict[int, list[Event]] = {}
    for event in events:
        by_step.setdefault(int(number_of(event, "step") or 0), []).append(event)
    if not by_step:
        return join()
    newest = sorted(by_step, reverse=True)[:MAX_SAMPLE_STEPS]
    # By their files: the events of a long run's beginning are not among the last.
    sentences = [
        event | {"path": sample_file(0, int(number_of(event, "sentence") or 1))} for event in by_step[newest[0]]
    ]
    spoken = [
        (text.SPOKEN_BEFORE, [event for event in sentences if (run / event["path"]).is_file()]),
        *((text.SPOKEN_AT.format(step=step), by_step[step]) for step in newest if step),
    ]
    groups = [tag("div", tag("div", title, class_="step"), *_players(found, run)) for title, found in spoken if found]
    reference = run / REFERENCE_FILE
    real = recording(text.REAL_VOICE, reference) if reference.is_file() else None
    return framed(text.SAMPLES, real, *groups)


def _players(events: list[Event], run: Path) -> list[Markup]:
    players = []
    for event in events:
        path = run / str(event.get("path", ""))
        # Only what lies in the run's own folder is played, whatever its log says.
        if path.resolve().is_relative_to(run.resolve()):
            words = str(event.get("text", ""))
            players.append(tag("div", player(path, words), tag("span", words), class_="player"))
    return players


def _decoder(fit: dict[str, Any]) -> str:
    """about.json's words on the decoder; earlier exports measured something else, or nothing."""
    kept = str(fit.get("kept", ""))
    try:
        mel, similarity = ([f"{fit[f'{figure}_{when}']:.2f}" for when in ("before", "after")] for figure in FIT_FIGURES)
    except (KeyError, TypeError, ValueError):
        return kept
    return text.DECODER_FIT.format(kept=kept, before=mel[0], after=mel[1], unlike=similarity[0], like=similarity[1])


def ready_model(folder: Path, took_s: float | None = None) -> Markup:
    """The exported model: where it is, what it was made from, and how long the export took, where that is known."""
    about = read_about(folder)
    facts = [(text.ABOUT_WORDS[key], str(about[key])) for key in text.ABOUT_WORDS if isinstance(about.get(key), str)]
    rows = [(text.FOLDER, str(folder)), *facts]
    if isinstance(fit := about.get("decoder"), dict):
        rows.append((text.DECODER, _decoder(fit)))
    if shares := _shares(about.get("compared_with_base")):
        rows.append((text.BESIDE_THE_BASE, shares))
    if took_s is not None:
        rows.append((text.EXPORT_TOOK, duration(took_s)))
    shown = table((), rows, label=text.EXPORTED)
    return tag("div", message("good", text.EXPORTED), worse_than_base(folder), shown, class_="panel")


def voice_file(path: Path) -> Markup | None:
    """That a LoRA voice was exported as a file, where one was."""
    return message("good", text.VOICE_EXPORTED.format(path=path)) if path.is_file() else None


def worse_than_base(folder: Path) -> Markup | None:
    """A warning where an export was found to speak worse than its base."""
    compared = read_about(folder).get("compared_with_base")
    is_worse = isinstance(compared, dict) and compared.get("is_worse") is True
    return message("error", text.WORSE_THAN_BASE) if is_worse else None


def _shares(compared: Any) -> str:
    """Shares of right words and of no defects, each of the model and the base; nothing where not measured."""
    sides = (("", "model"), ("base_", "base"))
    try:
        shares = {f"{side}{of}": f"{compared[who][of]:.0%}" for of in ("words", "flawless") for side, who in sides}
        return text.SHARES.format(texts=int(compared["texts"]), **shares)
    except (KeyError, TypeError, ValueError):
        return ""
