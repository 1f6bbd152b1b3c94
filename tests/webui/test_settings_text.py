"""Every setting the page asks for has a name and a help in the page's own words."""

import pytest

from utils.config import SpeechSettings, TrainConfig
from utils.dataset.settings import PrepareConfig
from utils.switches import CHECKBOXES
from webui import text
from webui.fields import fields_of, training_fields
from webui.tabs import data

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
