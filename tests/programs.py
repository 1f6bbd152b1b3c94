"""System programs that tests use: what is missing of them, and why a test is skipped then."""

import shutil
from collections.abc import Callable

from recipes.base.word_lists import DICTIONARY, find_dictionary
from utils.evaluation import recognition
from utils.evaluation.reference import ABSENT, PROGRAM


def _espeak() -> str:
    return "" if shutil.which(PROGRAM) else ABSENT


def _dictionary() -> str:
    return "" if find_dictionary() else f"{DICTIONARY} is not installed (apt-get install wamerican-small)"


def _recognizer() -> str:
    return "" if recognition.packaged("tiny.en") else recognition.ABSENT


def _multilingual() -> str:
    return "" if all(map(recognition.package_folder, recognition.PARTS)) else recognition.ABSENT


MISSING: dict[str, Callable[[], str]] = {"espeak-ng": _espeak, "dictionary": _dictionary}
MISSING |= {"recognizer": _recognizer, "multilingual-recognizer": _multilingual}
"""By its name in the marker `programs`: why it cannot be used, or nothing."""
