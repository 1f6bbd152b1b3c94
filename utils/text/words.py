"""Words for which stock's rules, or num2words, have none or the wrong ones: words.json, a language an entry.

Forms of a word stand for one, for few and for many of a thing, as far as a language has them: `час|часа|часов`.

- `months`, `date` (where it is not day, month, year), `first` (day of a month).
- `time`: with minutes, and on the hour, of the clock that was written, of 12 or of 24; `seconds` behind it; `hours`,
  `minutes`: the words that it counts; `one o'clock`: the number of that hour.
- `money`: by sign; `hundredths`: by sign, and of all others. Signs that stock reads are absent.
- `units`: by sign; `/h` per hour, `°` degrees of `C` and `F`.
- `percent`, `minus`, `point` (before decimals).
- `gender`: how a feminine word ends, its numbers that agree with it, and those of other words where stock's differ.
- `signs`: № and §; `fractions`: those in words.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def words_table() -> dict[str, dict[str, Any]]:
    """The entries by plain code."""
    return dict(json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8")))
