"""The recommended settings for this machine, with reasons."""

from utils.hardware import Recommendation
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import message


def recommendation(found: Recommendation) -> Markup:
    """The reasons, and what keeps the machine from training better."""
    reasons = tag("ul", *(tag("li", reason) for reason in found.reasons))
    problems = [message("warning", problem) for problem in found.problems]
    return tag("div", tag("div", text.RECOMMENDED, class_="panel-title"), reasons, *problems, class_="panel")
