"""Open pages are counted while they ask, and answers are shared for a second."""

from webui.pages import EVERY_S, FORGET_S, SHARED_S, OpenPages, SharedAnswers


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_page_is_never_told_to_wait_until_it_is_forgotten():
    pages = OpenPages(Clock())
    assert max(pages.interval(str(number)) for number in range(1_000)) < FORGET_S


def test_closed_pages_do_not_count():
    pages = OpenPages(clock := Clock())
    assert max(pages.interval(str(number)) for number in range(50)) > EVERY_S
    clock.now = FORGET_S + 1
    assert pages.interval("0") == EVERY_S


def test_an_answer_that_took_long_does_not_replace_a_younger_one():
    shared = SharedAnswers[str](clock := Clock())

    def slow() -> str:
        clock.now = 0.5
        assert shared.get("a", lambda: "young", fresh=True) == "young"
        return "old"

    assert shared.get("a", slow) == "old" and shared.get("a", lambda: "new") == "young"


def test_an_answer_is_shared_while_it_is_young_and_made_anew_on_demand():
    made: list[int] = []
    shared = SharedAnswers[int](clock := Clock())

    def make() -> int:
        made.append(len(made))
        return made[-1]

    assert [shared.get("a", make), shared.get("a", make), shared.get("b", make)] == [0, 0, 1]
    assert shared.get("a", make, fresh=True) == shared.get("a", make) == 2
    clock.now = SHARED_S
    assert shared.get("a", make) == 3
    assert len(shared._answers) == 1, "old answers are not kept"
