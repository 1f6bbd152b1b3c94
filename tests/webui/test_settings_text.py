"""Every setting the page asks for has a name and a help in the page's own words."""

import re

import pytest

from utils.config import SpeechSettings, TrainConfig
from utils.dataset.settings import PrepareConfig
from utils.switches import CHECKBOXES
from webui import text
from webui.fields import fields_of, training_fields
from webui.interface import create_ui
from webui.tabs import data

MAX_HELP = 90
ASKED = [
    *((PrepareConfig, name) for name in fields_of(PrepareConfig) if name not in data.NOT_ASKED),
    *((TrainConfig, name) for name in (*(switch.field for switch in CHECKBOXES), *training_fields())),
    *((SpeechSettings, name) for name in fields_of(SpeechSettings)),
]


@pytest.mark.parametrize(("config", "name"), ASKED)
def test_a_setting_has_a_name_a_help_and_names_for_its_choices(config, name):
    field = fields_of(config)[name]
    assert name in text.LABELS, f"add {name} to webui/text/settings.py"
    help = text.help_of(name, field.help)
    assert len(help) > 10 and "`" not in help and "None" not in help and "--" not in help, help
    assert [choice for choice in field.choices if choice not in text.CHOICES] == []


def test_no_words_belong_to_a_setting_that_is_gone():
    known = {name for config in (PrepareConfig, TrainConfig, SpeechSettings) for name in fields_of(config)}
    assert set(text.HELPS) <= known


def test_help_on_the_page_is_one_short_sentence(tmp_path):
    """In the language that is laid out first; a license is quoted as it is."""
    blocks = create_ui(tmp_path).blocks.values()
    helps = [block.info for block in blocks if getattr(block, "info", None) and block.visible]
    is_long = [help for help in helps if len(help) > MAX_HELP or re.search(r"[.!?] \S", help)]
    assert len(helps) > 20 and set(is_long) == {text.LICENSE_WORDS}
