"""AdamW that loads no compiler, for every training; apart from the others, so that a fit of a decoder loads no more."""

from inspect import unwrap

import torch
from torch.optim import AdamW


class EagerAdamW(AdamW):
    """torch's AdamW without what it does for torch.compile, which loads the compiler: two seconds of a run's start."""

    add_param_group = unwrap(AdamW.add_param_group)
    zero_grad = unwrap(AdamW.zero_grad)
    state_dict = unwrap(AdamW.state_dict)
    load_state_dict = unwrap(AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(AdamW.step))
