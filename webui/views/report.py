"""The dataset's report: used and dropped clips with reasons, and the uploads behind them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from utils.dataset.sources.intake import count_kinds
from utils.dataset.storage.report import ClipReport, Report
from utils.options import STARTER
from webui import text
from webui.markup import Markup, join, tag
from webui.views.chart import bar_chart
from webui.views.parts import badge, duration, empty, fact_row, file_address, framed, gigabytes, message, small, table

MAX_LISTED = 500
"""Uploaded files that the page names."""
MAX_IGNORED = 20
"""Ignored files that the page lists; all are in report.html."""
GOOD_MINUTES, ENOUGH_MINUTES = 10, 2
"""Speech of one voice from which a fine-tuning gains, and below which it hardly can."""


def uploads(found: Mapping[Path, int]) -> Markup:
    """What was uploaded so far."""
    if not found:
        return empty(text.NOTHING_UPLOADED)
    counts, size = text.upload_counts(*count_kinds(found)), gigabytes(sum(found.values()))
    return fact_row([*((tag("b", count), " ", words) for count, words in counts if count), (size,)])


def files(found: Mapping[Path, int], clips: Sequence[ClipReport]) -> Markup:
    """Uploaded files: size, and how many clips of each are in the dataset."""
    counts = Counter((Path(clip.source).name, clip.status) for clip in clips)
    rows = [
        (path.name, gigabytes(size), text.clips_of_file(counts[path.name, "used"], counts[path.name, "dropped"]))
        for path, size in islice(found.items(), MAX_LISTED)
    ]
    more = len(found) - len(rows)
    return join(
        table(text.FILE_COLUMNS, rows, label=text.UPLOADED_FILES),
        small(text.more_files(more)) if more > 0 else None,
    )


def report(found: Report, language: str, page: Path | None = None, *, base: str = "") -> Markup:
    """Totals, a verdict on the amount, and the reasons for what was dropped.

    Args:
        found: the dataset's report.
        language: code of its language.
        page: the report with pictures and players, where there is one.
        base: the project's base, on which the verdict depends.
    """
    totals = found.totals
    cards = (
        (totals["used"], text.CLIPS_USED),
        (totals["dropped"], text.CLIPS_DROPPED),
        *([(totals["flagged"], text.CLIPS_FLAGGED)] if totals.get("flagged") else []),
        (duration(totals["seconds"]), text.SPEECH),
        (f"{totals['train']} / {totals['eval']}", text.TRAIN_AND_EVAL),
        (language, text.LANGUAGE),
    )
    shown = [tag("div", tag("div", value, class_="value"), tag("div", words), class_="card") for value, words in cards]
    reasons = [(text.reason(reason), count) for reason, count in totals["reasons"].items()]
    dropped = table(text.REASON_COLUMNS, reasons, label=text.DROPPED) if reasons else message("good", text.ALL_USED)
    files = [(Path(file).name, kind) for file, kind in islice(found.ignored.items(), MAX_IGNORED)]
    ignored = table(text.IGNORED_COLUMNS, files, label=text.IGNORED) if files else None
    minutes = totals["seconds"] / 60
    is_good = minutes >= GOOD_MINUTES
    verdict = message("good" if is_good else "hint", text.amount(minutes, enough=is_good))
    if base == STARTER:
        get = tag("a", text.GET_BASE, href="?tab=system")
        verdict = message("hint", tag("span", text.PRACTICE_ONLY, " ", get))
    elif minutes < ENOUGH_MINUTES:
        verdict = message("warning", text.FEW_MINUTES)
    link = tag("a", text.FULL_REPORT, href=file_address(page), download="report.html") if page else None
    return framed(text.DATASET, tag("div", *shown, class_="cards"), verdict, dropped, ignored, link)


def lengths(found: Report) -> Markup:
    """How many used clips there are of each whole second."""
    counts = Counter(int(clip.seconds) for clip in found.used)
    bars = [(str(second), counts[second]) for second in range(max(counts) + 1)] if counts else []
    return bar_chart(text.LENGTHS, bars, x_title=text.SECONDS, y_title=text.CLIPS)


def clip_name(found: ClipReport) -> str:
    """What the table calls a clip."""
    return Path(found.clip).stem or Path(found.source).name


def rows(clips: Sequence[ClipReport]) -> list[list[str | float]]:
    """The clips of the table: the columns of `text.CLIP_COLUMNS`."""
    return [
        [
            str(status(clip)),
            _why(clip),
            clip.text,
            round(clip.seconds, 2),
            text.SPLITS[clip.split],
            clip_name(clip),
        ]
        for clip in clips
    ]


def status(clip: ClipReport) -> Markup:
    """Used, to be reviewed or dropped, in color and words."""
    if clip.status == "used" and clip.flags and not clip.accepted:
        return badge("live", text.STATUS["review"])
    return badge("good" if clip.status == "used" else "bad", text.STATUS[clip.status])


def found(first: int, num_shown: int, num_found: int, num_clips: int) -> Markup:
    """Which of how many clips the table shows."""
    return small(text.clips_shown(first, num_shown, num_found, num_clips))


def _why(clip: ClipReport) -> str:
    """Why a clip was dropped, or what deserves a review in one that is used."""
    if clip.reason:
        return text.on_page(text.because(clip.reason, clip.detail))
    return text.on_page("; ".join(text.because(*flag) for flag in clip.flags if not clip.accepted))


def clip(found: ClipReport, *, has_sound: bool) -> Markup:
    """One clip: how long it is, what it is used for, why it was dropped if it was, and its text as the model reads it.

    What the model reads is known of transcripts that a preparation has seen.
    """
    facts = [f"{found.seconds:.2f} s", text.STATUS[found.status], text.SPLITS[found.split], found.speaker]
    heading = tag("div", Path(found.source).name, class_="panel-title")
    why = message("warning", text.phase(_why(found))) if _why(found) else None
    silent = None if has_sound else message("hint", text.CLIP_HAS_NO_SOUND)
    line = small(" · ".join(fact for fact in facts if fact))
    read = small(text.READ_AS, " ", tag("q", found.read)) if found.read else None
    return tag("div", heading, line, why, read, silent)
