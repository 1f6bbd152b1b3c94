"""Text from users stays text."""

from markupsafe import Markup, escape

from webui.markup import join, lines, tag

EVIL = '<img src=x onerror="alert(1)">'


def test_children_and_attributes_are_escaped():
    made = tag("div", EVIL, title=EVIL, aria_label="a & b", class_="c")
    assert "<img" not in made
    assert made.startswith(
        '<div title="&lt;img src=x onerror=&#34;alert(1)&#34;&gt;" aria-label="a &amp; b" class="c">'
    )


def test_markup_goes_in_as_it_is_and_nothing_is_left_out():
    assert tag("p", tag("b", 1), None, 0) == "<p><b>1</b>0</p>"
    assert join("<", Markup("<i>")) == "&lt;<i>"


def test_line_breaks_stay():
    assert lines("a\n<b>") == "a<br>&lt;b&gt;"
    assert escape(3) == "3"
