"""Texts about memory: who holds it, and whether a training fits."""

from webui.text.catalog import _
from webui.text.training import SYSTEM_MEMORY

FIT_TITLE = _("Will it fit?")
NEEDED_BY_RUN, FITS = _("this training, by calculation"), _("It should fit.")
MEMORY_LIMIT = _("limit")


def device_memory(device: str) -> str:
    """Whose memory a training takes."""
    return _("GPU memory") if device == "cuda" else SYSTEM_MEMORY


NEEDED_OF = _("needs about {needed}; {budget} can be planned for, the limit is {total}")
NEEDED_OF_HOST = _("System memory for the optimizer: {needed} of {budget}")


def fits_not(device: str) -> str:
    """What helps a training that does not fit."""
    if device == "cuda":
        return _("It probably does not fit: use a smaller batch, gradient checkpointing or 8-bit AdamW, or Recommend.")
    return _("It probably does not fit: close other programs, use a smaller batch or LoRA, or Recommend.")
