"""What some tests of the recipe need of the machine; without it they are skipped, with what to install."""

import ctypes
import shutil

import pytest

from recipes.starter.timings import LIBRARY
from recipes.starter.word_lists import DICTIONARY
from utils.evaluation.reference import ABSENT, PROGRAM


def _has_library() -> bool:
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


needs_espeak = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=ABSENT)
needs_library = pytest.mark.skipif(not _has_library(), reason=f"{LIBRARY} is not installed: {ABSENT}")
needs_dictionary = pytest.mark.skipif(
    not DICTIONARY.is_file(), reason=f"{DICTIONARY} is not installed (apt-get install wamerican-small)"
)
