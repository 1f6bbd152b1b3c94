"""Open pages: limit how often each polls, and share answers between them."""

import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

EVERY_S = 2.0
"""How often a page asks what is new, while few are open."""
ANSWERS_PER_S = 4
"""All pages together ask no more often: what answers them is missing to a training on the same processor."""
FORGET_S = 60.0
"""A page that did not ask for this long is closed, or a browser's tab that is not looked at."""
SHARED_S = 1.0
"""So old may an answer be that another page asked for."""
T = TypeVar("T")


class OpenPages:
    """Counts who asks; safe to call from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}
        self._asked: dict[str, int] = {}
        self._count = 0

    def begin(self, page: str) -> int:
        """Note that a page asks now; the number of its question."""
        with self._lock:
            self._seen[page] = self._clock()
            self._count += 1
            self._asked[page] = self._count
            return self._count

    def is_newest(self, page: str, question: int) -> bool:
        """Whether a page has asked nothing since: what it asked before may be of another project."""
        with self._lock:
            return self._asked.get(page, question) == question

    def interval(self, page: str) -> float:
        """Note that a page asks now.

        Args:
            page: gradio's hash of its session.

        Returns:
            Seconds after which it shall ask again.
        """
        now = self._clock()
        with self._lock:
            self._seen[page] = now
            self._seen = {one: seen for one, seen in self._seen.items() if now - seen < FORGET_S}
            self._asked = {one: number for one, number in self._asked.items() if one in self._seen}
            return min(max(EVERY_S, float(math.ceil(len(self._seen) / ANSWERS_PER_S))), FORGET_S / 2)


class SharedAnswers(Generic[T]):
    """Lets pages that ask the same thing within a second have one answer; safe to call from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[Hashable, tuple[float, T]] = {}

    def get(self, question: Hashable, make: Callable[[], T], *, fresh: bool = False) -> T:
        """The answer that another page got, or one made now.

        Args:
            question: what it depends on.
            make: makes it; two pages that ask at the same moment may both make it.
            fresh: make it in any case, and let others have it.
        """
        now = self._clock()
        known = self._answers.get(question)
        if known is not None and not fresh and now - known[0] < SHARED_S:
            return known[1]
        answer = make()
        young = {key: one for key, one in list(self._answers.items()) if now - one[0] < SHARED_S}
        if (other := self._answers.get(question)) is None or other[0] <= now:
            # Otherwise one was begun later and made sooner.
            self._answers = young | {question: (now, answer)}
        return answer
