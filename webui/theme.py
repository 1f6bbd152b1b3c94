"""The page's theme, styles and scripts; nothing loads from the network, fonts included."""

from pathlib import Path

import gradio as gr

FONT = ("system-ui", "sans-serif")
FONT_MONO = ("ui-monospace", "Consolas", "monospace")


def create_theme() -> gr.themes.Base:
    """The theme that `launch` takes: light and dark follow the browser."""
    # Labels as plain bold text: there are many of them.
    plain = {"block_title_padding": "0", "block_title_text_weight": "600"}
    for mode in ("", "_dark"):
        plain[f"block_title_background_fill{mode}"] = "none"
        plain[f"block_title_text_color{mode}"] = "*body_text_color"
    # The theme's own grays are too faint to read small print and empty boxes by.
    plain |= {"block_info_text_color": "*neutral_600", "block_info_text_color_dark": "*neutral_300"}
    plain |= {"body_text_color_subdued": "*neutral_600", "body_text_color_subdued_dark": "*neutral_300"}
    # A link on a card of the dark page had a contrast of 3.4.
    plain |= {f"link_text_color{kind}_dark": "*secondary_300" for kind in ("", "_hover", "_active", "_visited")}
    plain |= {"checkbox_border_color": "*neutral_500", "checkbox_border_color_dark": "*neutral_400"}
    plain |= {"input_border_width": "1px", "input_border_color": "*neutral_300"}
    # In light as in dark, what belongs together stands on a ground of its own.
    plain |= {"body_background_fill": "*neutral_100", "block_border_width": "1px", "block_shadow": "none"}
    plain |= {"block_border_color": "*neutral_200", "block_border_color_dark": "*neutral_700"}
    return gr.themes.Soft(primary_hue=primary_hue(), font=FONT, font_mono=FONT_MONO).set(**plain)  # type: ignore[arg-type]


def primary_hue() -> gr.themes.Color:
    """Indigo whose middle, on which and in which text stands, has a contrast of 6.3 to white instead of 4.46."""
    indigo = gr.themes.colors.indigo
    return gr.themes.Color(
        name="indigo",
        c50=indigo.c50,
        c100=indigo.c100,
        c200=indigo.c200,
        c300=indigo.c300,
        c400=indigo.c400,
        c500=indigo.c600,
        c600=indigo.c600,
        c700=indigo.c700,
        c800=indigo.c800,
        c900=indigo.c900,
        c950=indigo.c950,
    )


def style() -> str:
    """The page's own style sheet."""
    return (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


def scripts() -> str:
    """The page's own scripts, for its head."""
    names = ("player.js", "page.js", "settings.js")
    return "".join(f"<script>{(Path(__file__).parent / name).read_text(encoding='utf-8')}</script>" for name in names)
