"""Load the GPT of a base, for training or to speak."""

from utils.bases.base import Base
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.weights import GPT_PREFIX, part
from utils.model.xtts import build_gpt


def load_gpt(base: Base, options: ForwardOptions | None = None) -> XttsGpt:
    """The base's GPT with its weights, in float32 on the CPU; decoder and speaker encoder are not loaded.

    Raises:
        UserError: the weights do not fit the sizes in config.json and vocab.json.
    """
    gpt = build_gpt(base.gpt_shape(), lambda: part(base.state(), GPT_PREFIX), where=str(base.folder), options=options)
    gpt.added_rows = base.added_rows()
    return gpt
