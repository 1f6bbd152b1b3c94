"""What a recording must be for a voice to be made of it; without torch."""

import numpy as np
from numpy.typing import NDArray

from utils.errors import UserError

SHORTEST_S = 0.33
"""A reference recording's least length; stock ignores shorter parts of one."""
SILENT_PEAK = 1e-3
"""No louder sample than this, 60 dB below full scale, is the noise of a silent recording."""


def check_reference(samples: NDArray[np.float32], sample_rate: int, *, where: str) -> None:
    """Check that a voice can be made of a recording.

    Args:
        samples: in [-1, 1], of any shape whose first dimension is time.
        sample_rate: in Hz.
        where: the recording's name or path, for the message.

    Raises:
        UserError: it is too short, or holds no sound.
    """
    what, seconds = "", len(samples) / sample_rate
    if seconds < SHORTEST_S:
        what = f"lasts {seconds:.2f} s"
    elif not np.abs(np.nan_to_num(samples)).max() > SILENT_PEAK:
        what = "holds no sound"
    if what:
        fix = f"use one of {SHORTEST_S} s or more; 6 to 30 s of clear speech work best"
        raise UserError(what=f"the reference recording {what}", where=where, fix=fix)
