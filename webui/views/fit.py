"""Whether the form's training fits in memory, by calculation, before it starts."""

from utils.hardware.recommendations import MemoryFit
from webui import text
from webui.markup import Markup, tag
from webui.views.parts import bar, framed, memory_size, message


def fit(found: MemoryFit) -> Markup:
    """A bar of what others hold and what the run would need, with the limit, and the answer in words."""
    needed = found.needed.total
    pieces = [
        ("others", found.used_bytes / found.total_bytes, text.USED_BY_OTHERS),
        ("own", min(needed, found.total_bytes - found.used_bytes) / found.total_bytes, text.NEEDED_BY_RUN),
    ]
    caption = text.NEEDED_OF.format(
        needed=memory_size(needed), budget=memory_size(found.budget_bytes), total=memory_size(found.total_bytes)
    )
    said = message("good", text.FITS) if found.fits else message("warning", text.fits_not(found.device))
    host = None
    if found.needed.host:
        amounts = {"needed": memory_size(found.needed.host), "budget": memory_size(found.host_budget_bytes)}
        host = tag("div", text.NEEDED_OF_HOST.format(**amounts), class_="small")
    about = tag("div", str(found.needed), class_="small")
    return framed(text.FIT_TITLE, bar(text.device_memory(found.device), pieces, caption), host, said, about)
