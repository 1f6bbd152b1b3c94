"""The choice of the page's language."""

from markupsafe import Markup

from webui import text
from webui.markup import tag
from webui.text.catalog import PAGE_LANGUAGES, language


def language_menu() -> Markup:
    """A list of the page's languages; page.js keeps the choice and loads the page anew."""
    options = [
        tag("option", name, value=code, lang=code, selected="selected" if code == language() else None)
        for code, name in PAGE_LANGUAGES.items()
    ]
    return tag("select", *options, id="page-language-choice", aria_label=text.PAGE_LANGUAGE)
