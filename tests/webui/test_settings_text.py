"""Every setting has a name on the page, and each that has a field there a help and names for its choices."""

import re

from utils.config import SpeechSettings, TrainConfig
from utils.dataset.settings import PrepareConfig
from webui import text
from webui.fields import NOT_ASKED, NOT_OFFERED, fields_of
from webui.tabs import data
from webui.tabs.train import ADVANCED, GPU_ONLY, MAIN

MAX_HELP = 90


def test_a_setting_has_a_name_and_no_words_belong_to_one_that_is_gone():
    known = {name for config in (PrepareConfig, TrainConfig, SpeechSettings) for name in fields_of(config)}
    assert set(text.HELPS) <= known
    assert {*MAIN, *ADVANCED, *GPU_ONLY} <= set(text.HELPS), "also where this machine has no GPU to show it for"
    left_out = {*NOT_ASKED, *NOT_OFFERED, *data.NOT_ASKED}
    assert known - left_out <= set(text.LABELS), "add a name to webui/text/settings.py"


def test_help_on_the_page_is_one_short_sentence_and_choices_have_words(laid_out):
    """In the language that is laid out first; a license is quoted as it is."""
    blocks = [block for block in laid_out.blocks.values() if getattr(block, "visible", None) is True]
    helps = [block.info for block in blocks if getattr(block, "info", None)]
    is_long = [help for help in helps if len(help) > MAX_HELP or re.search(r"[.!?] \S", help)]
    assert len(helps) > 20 and set(is_long) == {text.LICENSE_WORDS}
    chosen = [block for block in blocks if getattr(block, "choices", None)]
    offered = {words for block in chosen for words, _ in block.choices if words in ("True", "none", "own", "fp32")}
    assert len(chosen) > 10 and offered == set()
    settings = [block for block in blocks if str(block.elem_id).startswith(("set-", "switch-"))]
    assert len(settings) > len(MAIN) and [block.label for block in settings if not block.info] == []
