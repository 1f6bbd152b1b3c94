"""The catalog of the page's texts: all of them are translated, and its template is current."""

import subprocess
import sys

import pytest

from scripts import messages
from webui.text import catalog

PLAIN = {
    "BF16",
    "FP16",
    "FP32",
    "CPU",
    "CUDA GPU",
    "PyTorch",
    "flash-attn",
    "XTTS v2.0.2",
    "XTTS v2.0.3",
    "A",
    "B",
    "maria",
    "",
}
"""The same in every language."""
TRANSLATED = """
import gettext

class Marked(gettext.NullTranslations):
    def gettext(self, message):
        return f"«{message}»"
    def ngettext(self, singular, plural, n):
        return f"«{plural if n != 1 else singular}»"

gettext.NullTranslations = Marked
from webui import text

def texts(value):
    if isinstance(value, dict):
        value = list(value.values())
    for one in value if isinstance(value, (list, tuple)) else [value]:
        yield from texts(one) if isinstance(one, (list, tuple)) else [one] if isinstance(one, str) else []

for name, value in text.TEXTS["en"].items():
    if name.isupper() and name not in NOT_TEXTS:
        bare = [one for one in texts(value) if not one.startswith("«") and one not in PLAIN]
        assert not bare, (name, bare)
print(text.uploaded(2), text.model_name("base", "tiny", "", None), text.login(1))
"""
NOT_TEXTS = (
    "TITLE",
    "SHAPES",
    "COMMAND",
    "OFF_WHEN_EMPTY",
    "SELF_EXPLAINING",
    "VOICES",
    "LANGUAGES",
    "MEASURES",
    "MEASURE_CHOICES",
    "CLIP_ORDERS",
)
"""Names and patterns, and lists whose items have values that no one reads."""


def test_the_committed_template_is_current():
    committed = messages.TEMPLATE.read_text(encoding="utf-8")
    assert committed == messages.template(messages.PACKAGE, messages.ENGINE), "run: make messages"


def test_every_text_of_the_page_passes_through_the_catalogue():
    code = f"PLAIN, NOT_TEXTS = {PLAIN!r}, {NOT_TEXTS!r}\n" + TRANSLATED
    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert printed.stdout.split("\n") == ["«2 files were added.» «base tiny» «on: 1 name»", ""]


def test_a_text_that_is_no_literal_is_refused(tmp_path):
    (tmp_path / "a.py").write_text('_(f"{1} clips")\n')
    with pytest.raises(ValueError, match="literal"):
        messages.template(tmp_path)


def test_a_template_has_each_text_once_escaped_with_its_files(tmp_path):
    (tmp_path / "a.py").write_text("""_('say "yes"')\n_("{n} of {all}")\n""")
    (tmp_path / "b.py").write_text("""ngettext("clip", "clips", 2)\n_('say "yes"')\n""")
    made = messages.template(tmp_path).removeprefix(messages.HEADER)
    assert made.split("\n\n") == [
        '\n#: a.py\n#: b.py\nmsgid "say \\"yes\\""\nmsgstr ""',
        '#: a.py\n#, python-brace-format\nmsgid "{n} of {all}"\nmsgstr ""',
        '#: b.py\nmsgid "clip"\nmsgid_plural "clips"\nmsgstr[0] ""\nmsgstr[1] ""\n',
    ]


SPANISH = messages.PACKAGE / "es.po"


def test_every_text_has_a_spanish_translation_with_the_same_placeholders():
    assert messages.faults(messages.TEMPLATE, SPANISH) == [], "run: make messages, then translate what it names"
    assert SPANISH.read_text(encoding="utf-8") == messages.merged(messages.TEMPLATE, SPANISH)
    assert SPANISH.stat().st_size < 150_000


def test_a_missing_translation_and_a_wrong_placeholder_are_named(tmp_path):
    template, translation = tmp_path / "messages.pot", tmp_path / "xx.po"
    (tmp_path / "a.py").write_text("""_("gone?")\n_("{n} of {all}")\nngettext("{n} clip", "{n} clips", 2)\n""")
    template.write_text(messages.template(tmp_path))
    translation.write_text(
        'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n != 1;"\n\nmsgid "{n} of {all}"\nmsgstr "{n} {m}"\n'
    )
    assert messages.faults(template, translation) == [
        "missing: gone?",
        "other placeholders: {n} of {all}",
        "missing: {n} clip",
    ]
    translation.write_text(messages.merged(template, translation))
    found = catalog.Translations(translation)
    assert found.gettext("gone?") == "gone?" and found.ngettext("{n} clip", "{n} clips", 2) == "{n} clips"
