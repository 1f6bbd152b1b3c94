"""Write the template of the page's translations, webui/text/messages.pot, from the calls of `_` and `ngettext`.

    python -m scripts.messages

Each translation beside it (es.po) gets the template's texts: new ones empty, those that are gone dropped. What lacks a
translation is printed. Neither dates nor line numbers are written, so the files change only when a text does.
"""

import ast
import string
from collections.abc import Iterable, Mapping
from pathlib import Path

from utils.hardware.gpu import REASONS
from utils.options import SHAPES
from utils.runs.progress import SENTENCES
from utils.switches import SWITCHES
from webui.text.catalog import read_po

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "webui" / "text"
TEMPLATE = PACKAGE / "messages.pot"
HEADER = """# Texts of the page of XTTS Fine-tuning Studio.
msgid ""
msgstr ""
"Project-Id-Version: XTTS Fine-tuning Studio\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"
"""
ENGINE = {
    "utils/switches.py": [text for switch in SWITCHES for text in (switch.label, switch.help) if text],
    "utils/runs/progress.py": SENTENCES.values(),
    "utils/hardware/gpu.py": REASONS.values(),
    "utils/options.py": [label for label, _ in SHAPES.values()],
}
NUM_TEXTS = {"_": 1, "ngettext": 2}
"""How many of a call's arguments are texts: ngettext has singular and plural."""


def main() -> None:
    TEMPLATE.write_text(template(PACKAGE, ENGINE), encoding="utf-8", newline="\n")
    for path in sorted(PACKAGE.glob("*.po")):
        path.write_text(merged(TEMPLATE, path), encoding="utf-8", newline="\n")
        found = faults(TEMPLATE, path)
        print(f"{path.name}: {len(found)} to be translated", *found, sep="\n  ")


def merged(template: Path, translation: Path) -> str:
    """A translation with the texts of a template, in its order; those without a translation are empty."""
    known = read_po(translation)
    head = "".join(f"{_quoted(line)}\n" for line in known[("",)][0].splitlines(keepends=True))
    entries = [_entry(ids, [], known.get(ids, tuple("" for _ in ids))) for ids in read_po(template) if ids != ("",)]
    return "\n".join([f'msgid ""\nmsgstr ""\n{head}', *entries])


def faults(template: Path, translation: Path) -> list[str]:
    """Texts of a template that a translation lacks, and those whose placeholders differ."""
    known = read_po(translation)
    found = []
    for ids in read_po(template):
        texts = known.get(ids, ())
        if len(texts) < len(ids) or not all(texts):
            found.append(f"missing: {ids[0]}")
        elif ids != ("",) and any(_fields(text) != _fields(ids[-1]) for text in texts):
            found.append(f"other placeholders: {ids[0]}")
    return found


def template(package: Path, engine: Mapping[str, Iterable[str]] | None = None) -> str:
    """The .pot file of a package: every text once, with the files that use it.

    Args:
        package: folder of the files.
        engine: texts that the page takes from elsewhere, by the file that holds them.

    Raises:
        ValueError: a call whose text is not a literal, which no tool can extract.
    """
    files: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(package.glob("*.py")):
        for texts in texts_of(path):
            used = files.setdefault(texts, [])
            used += [path.name] if path.name not in used else []
    for name, brought in (engine or {}).items():
        for text in brought:
            used = files.setdefault((text,), [])
            used += [name] if name not in used else []
    return "\n".join([HEADER, *(_entry(texts, used) for texts, used in files.items())])


def texts_of(path: Path) -> list[tuple[str, ...]]:
    """What a file translates, in the order of its lines: (text,) or (singular, plural)."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    found = []
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in NUM_TEXTS:
            texts = [arg.value for arg in call.args[: NUM_TEXTS[name]] if isinstance(arg, ast.Constant)]
            if len(texts) < NUM_TEXTS[name] or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{path.name}, line {call.lineno}: {name} needs a literal text")
            found.append(tuple(map(str, texts)))
    return found


def _entry(texts: tuple[str, ...], files: list[str], translations: tuple[str, ...] = ("", "")) -> str:
    lines = [f"#: {name}" for name in files]
    lines += ["#, python-brace-format"] if any(map(_fields, texts)) else []
    if len(texts) == 1:
        lines += [f"msgid {_quoted(texts[0])}", f"msgstr {_quoted(translations[0])}"]
    else:
        lines += [f"msgid {_quoted(texts[0])}", f"msgid_plural {_quoted(texts[1])}"]
        lines += [f"msgstr[{number}] {_quoted(text)}" for number, text in enumerate(translations)]
    return "\n".join(lines) + "\n"


def _fields(text: str) -> list[tuple[str, str]]:
    """The placeholders of a text with their formats, sorted: a translation may have them in another order."""
    return sorted((field, form or "") for _, field, form, _ in string.Formatter().parse(text) if field is not None)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


if __name__ == "__main__":
    main()
