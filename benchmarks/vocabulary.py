"""What extending a vocabulary costs, and what it brings: make bench-vocabulary.

Corpora of 10^4, 10^5 and 10^6 sentences (JSONL), generated from common words with their prefixes and endings, the more
frequent ones more often; each cell in a process of its own, so that its peak memory is its own. Tokens a word are
counted on the corpus and on a text that is not in it, the first article of the Universal Declaration of Human Rights.
"""

import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tyro

from utils.hardware.processor import cpu

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sentencepiece", "tokenizers", "torch")
STAGES = {
    "extract": "table to text, resumable",
    "normalise": "text rules",
    "extend": "SentencePiece, merges, proof, grown weights",
}
WORDS_A_SENTENCE = 8


@dataclass(frozen=True)
class Language:
    """What sentences are made of."""

    words: str
    before: str
    """Prefixes; a word takes none as often as all of them together."""
    after: str
    """Endings, likewise."""
    stop: str
    unseen: str
    """A text to count tokens on."""


LANGUAGES = {
    "amh": Language(
        words="ሰው ቤት ልጅ አገር ቀን ውሃ ስራ ትምህርት መጽሐፍ ከተማ ሴት ወንድ ጊዜ ዓመት መንገድ እጅ ዓይን ልብ ስም ቃል ነገር ህይወት ሰላም ፍቅር "
        "ምድር ሰማይ ፀሐይ ጨረቃ ዝናብ ወንዝ ተራራ ዛፍ አበባ ፍሬ ቡና ምግብ ዳቦ ወተት በግ ላም ፈረስ ንጉሥ መንግሥት ሕዝብ ገበያ ገንዘብ ሐኪም "
        "መምህር ተማሪ ጓደኛ እናት አባት ወንድም እህት ታሪክ ቋንቋ ዘፈን ጥያቄ መልስ",
        before="የ በ ለ ከ እንደ ስለ",
        after="ን ም ው ና ዎች ቹ",
        stop="።",
        unseen="የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው። የተፈጥሮ ማስተዋልና ሕሊና ስላለው አንዱ ሌላውን በወንድማማችነት "
        "መንፈስ መመልከት ይገባዋል።",
    ),
    "ka": Language(
        words="კაცი სახლი ბავშვი ქვეყანა დღე წყალი სამუშაო სკოლა წიგნი ქალაქი ქალი დრო წელი გზა ხელი "
        "თვალი გული სახელი სიტყვა საქმე სიცოცხლე მშვიდობა სიყვარული დედამიწა ცა მზე მთვარე წვიმა "
        "მდინარე მთა ხე ყვავილი ხილი ყავა საჭმელი პური რძე ცხვარი ძროხა ცხენი მეფე ხალხი ბაზარი "
        "ფული ექიმი მასწავლებელი სტუდენტი მეგობარი დედა მამა ძმა და ისტორია ენა სიმღერა კითხვა "
        "პასუხი უფლება თავისუფლება",
        before="და არა ყველა",
        after="ს მა ში ზე დან თან ები ებს",
        stop=".",
        unseen="ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. მათ "
        "მინიჭებული აქვთ გონება და სინდისი და ერთმანეთის მიმართ უნდა იქცეოდნენ ძმობის "
        "სულისკვეთებით.",
    ),
    "hy": Language(
        words="մարդ տուն երեխա երկիր օր ջուր աշխատանք դպրոց գիրք քաղաք կին ժամանակ տարի ճանապարհ ձեռք "
        "աչք սիրտ անուն բառ բան կյանք խաղաղություն սեր երկինք արև լուսին անձրև գետ սար ծառ ծաղիկ "
        "միրգ սուրճ ուտելիք հաց կաթ ոչխար կով ձի թագավոր ժողովուրդ շուկա փող բժիշկ ուսուցիչ "
        "ուսանող ընկեր մայր հայր եղբայր քույր պատմություն լեզու երգ հարց պատասխան իրավունք "
        "ազատություն",
        before="ան չ ամեն",
        after="ը ի ին ով ում եր ներ ից",
        stop="։",
        unseen="Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։ Նրանք "
        "ունեն բանականություն ու խիղճ և միմյանց պետք է եղբայրաբար վերաբերվեն։",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Sentences of the corpora; the languages beside the first are measured with the smallest."""
    stages: tuple[str, ...] = tuple(STAGES)
    """Which cells: extract, normalise, extend."""
    languages: tuple[str, ...] = tuple(LANGUAGES)
    """Which languages: amh, ka, hy."""
    base: str = "tiny"
    """Base that is extended; its vocabulary size hardly matters to the time."""
    target: int = 2_000
    """Tokens added at most."""
    out: Path = ROOT / "benchmarks" / "results" / "vocabulary.json"
    """Results file."""
    cell: str = ""
    """Measure one stage in this process; used by the benchmark itself."""
    work: Path = Path()
    """Scratch folder of `cell`."""
    vocab: Path = Path()
    """The base's tokenizer file, for `cell`: the text rules alone need no torch."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measurement."""

    stage: str
    language: str
    sentences: int
    seconds: float
    """On the clock, libraries already loaded."""
    cpu_s: float
    """Processor time, over all threads."""
    peak_mb: float
    """Most memory of the process, in MB (10^6 bytes)."""
    start_mb: float
    """The same before the work began: libraries and the base's tokenizer."""
    words_per_s: float = 0.0
    """Words that came out of the text rules in a second of processor time."""
    tokens_per_s: float = 0.0
    """The same in tokens of the base's own vocabulary."""
    added: int = 0
    tokens_a_word: dict[str, float] | None = None
    """Before and after, on the corpus and on a text that is not in it."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.cell:
        print(json.dumps(asdict(_measure(settings))))
        return
    from utils.bases.find import find_base

    cells: list[Cell] = []
    vocab = find_base(settings.base).vocab
    with tempfile.TemporaryDirectory() as scratch:
        for language, size, stage in _plan(settings):
            cells.append(_in_child(stage, language, size, settings, Path(scratch), vocab))
            print(_row(cells[-1]), flush=True)
            # After each, so that a run that is cut short has not been for nothing.
            settings.out.parent.mkdir(parents=True, exist_ok=True)
            settings.out.write_text(json.dumps(_result(settings, cells), indent=1) + "\n")
    print(f"\n{_title()}\n{_head()}\n" + "\n".join(map(_row, cells)) + f"\n\nwritten to {settings.out}")


def _plan(settings: Settings) -> Iterator[tuple[str, int, str]]:
    """All sizes of the first language, the smallest of the others."""
    for number, language in enumerate(settings.languages):
        for size in settings.sizes if number == 0 else settings.sizes[:1]:
            for stage in settings.stages:
                yield language, size, stage


def _in_child(stage: str, language: str, size: int, settings: Settings, scratch: Path, vocab: Path) -> Cell:
    flags = ["--cell", stage, "--languages", language, "--sizes", str(size), "--work", str(scratch)]
    flags += ["--base", settings.base, "--target", str(settings.target), "--vocab", str(vocab)]
    command = [sys.executable, "-m", "benchmarks.vocabulary", *flags]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{stage} failed with exit status {done.returncode}")
    return Cell(**json.loads(done.stdout.splitlines()[-1]))


def _measure(settings: Settings) -> Cell:
    language, size, stage = settings.languages[0], settings.sizes[0], settings.cell
    corpus = settings.work / f"{language}-{size}.jsonl"
    if not corpus.is_file():
        with corpus.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": line}, ensure_ascii=False) + "\n" for line in sentences(language, size))
    work, more = {"extract": _extract, "normalise": _normalise, "extend": _extend}[stage](settings, corpus, language)
    start_mb = _peak_mb()
    begin, cpu = time.perf_counter(), time.process_time()
    outcome = work()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return Cell(
        stage=stage,
        language=language,
        sentences=size,
        seconds=round(seconds, 2),
        cpu_s=round(cpu, 2),
        peak_mb=round(_peak_mb(), 1),
        start_mb=round(start_mb, 1),
        **more(outcome, max(cpu, 1e-6)),
    )


Work = tuple[Callable[[], Any], Callable[[Any, float], dict[str, Any]]]
"""The work, and what else to report (its outcome, its processor time)."""


def sentences(language: str, count: int) -> Iterator[str]:
    """Sentences of one language, the same each time."""
    parts, chance = LANGUAGES[language], random.Random(1)
    words, before, after = parts.words.split(), parts.before.split(), parts.after.split()
    befores, afters = [""] * len(before) + before, [""] * len(after) + after
    # As in real text: the second word is half as frequent as the first, and so on (Zipf).
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for _ in range(count):
        chosen = chance.choices(words, weights, k=WORDS_A_SENTENCE)
        yield " ".join(chance.choice(befores) + word + chance.choice(afters) for word in chosen) + parts.stop


def _extract(settings: Settings, corpus: Path, language: str) -> Work:
    from utils.text.vocabulary.corpus import extract, work_folder

    def work() -> None:
        with work_folder(settings.work / "extraction") as folder:
            extract(corpus, folder)

    return work, lambda outcome, cpu: {}


def _normalise(settings: Settings, corpus: Path, language: str) -> Work:
    from utils.text.normalize import normalize
    from utils.text.tokenizer import Tokenizer
    from utils.text.vocabulary.corpus import iter_texts
    from utils.text.vocabulary.learn import words_of

    tokenizer = Tokenizer(settings.vocab)
    sample = [normalize(text, language).text for text, _ in zip(iter_texts(corpus), range(2_000), strict=False)]
    words = sum(len(words_of(text)) for text in sample) / len(sample)
    tokens = sum(len(tokenizer.segments(text)) for text in sample) / len(sample)

    def work() -> int:
        return sum(bool(normalize(text, language).text) for text in iter_texts(corpus))

    return work, lambda count, cpu: {
        "words_per_s": round(count * words / cpu),
        "tokens_per_s": round(count * tokens / cpu),
    }


def _extend(settings: Settings, corpus: Path, language: str) -> Work:
    from utils.bases.extend import add_language
    from utils.bases.find import find_base
    from utils.language.reading import read_texts, texts_of

    base = find_base(settings.base)
    _ = base.tokenizer(), base.state()
    texts = {"corpus": texts_of(corpus, is_manifest=False)[:2_000], "unseen": [(LANGUAGES[language].unseen, 0.0)]}

    def read(tokenizer: Any) -> dict[str, float]:
        found = {name: read_texts(some, language, tokenizer, limit=402) for name, some in texts.items()}
        return {name: round(reading.tokens_per_word, 3) for name, reading in found.items()}

    before = read(base.tokenizer())
    folder = settings.work / f"extended-{corpus.stem}"

    def more(made: Any, cpu: float) -> dict[str, Any]:
        after = read(made.base.tokenizer())
        counts = {f"{name} before": before[name] for name in before} | {f"{name} after": after[name] for name in after}
        return {"added": len(made.extension.added), "tokens_a_word": counts}

    return lambda: add_language(base, language, folder, corpus=corpus, target=settings.target), more


def _peak_mb() -> float:
    """Most memory of this program; Linux counts that of the process which started it too, but not in /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    high = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    if high:
        return int(high[0]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux kibibytes.
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def _title() -> str:
    return f"{cpu().model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def _head() -> str:
    heads = ("sentences", "seconds", "cpu s", "start MB", "peak MB", "tokens/s", "added")
    return f"{'':<50}" + "".join(f"{text:>10}" for text in heads) + "   tokens a word"


def _row(cell: Cell) -> str:
    texts = [f"{cell.sentences}", f"{cell.seconds:.1f}", f"{cell.cpu_s:.1f}", f"{cell.start_mb:.0f}"]
    texts += [f"{cell.peak_mb:.0f}", f"{cell.tokens_per_s:.0f}" if cell.tokens_per_s else "", str(cell.added or "")]
    counts = ", ".join(f"{name} {value:.2f}" for name, value in (cell.tokens_a_word or {}).items())
    return f"{cell.language:<5}{STAGES[cell.stage]:<45}" + "".join(f"{text:>10}" for text in texts) + f"   {counts}"


def _result(settings: Settings, cells: list[Cell]) -> dict[str, object]:
    return {
        "command": f"python -m benchmarks.vocabulary {' '.join(sys.argv[1:])}".strip(),
        "hardware": {"processor": cpu().model, "cores": os.cpu_count(), "system": platform.platform()},
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "target": settings.target,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "cells": [asdict(cell) for cell in cells],
    }


if __name__ == "__main__":
    main()
