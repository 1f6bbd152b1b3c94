"""The fast forms of 8-bit AdamW's update do what its operations in PyTorch do: on a processor, and on a GPU."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from utils.model.split_weights import join, split_into
from utils.training.optimizer import adamw8bit
from utils.training.optimizer.adamw8bit import SMALLEST, AdamW8bit, update_part
from utils.training.optimizer.levels import BLOCK
from utils.training.optimizer.make import BETAS
from utils.training.optimizer.plain_adamw import PlainAdamW

ROOT = Path(__file__).resolve().parents[3]
NEEDS_TRITON = "Triton is not installed; it comes with torch on Linux"
SHAPES = [(64, 130), (33, 129), (SMALLEST * 4,), (40,), (17, 5)]
"""Large ones that are and that are not whole numbers of blocks, and small ones, whose moments are not quantized."""
STEPS = 4


def start(*, split: bool = False) -> tuple[list[Tensor], dict[Tensor, Tensor]]:
    """Weights, and the lower halves of those that are split."""
    torch.manual_seed(0)
    found, rests = [], {}
    for shape in SHAPES:
        whole = torch.randn(shape)
        if split and len(shape) > 1:
            upper, rest = torch.empty(shape, dtype=torch.bfloat16), torch.empty(shape, dtype=torch.int16)
            split_into(whole, upper, rest)
            weights = upper.requires_grad_()
            rests[weights] = rest
        else:
            weights = whole.requires_grad_()
        found.append(weights)
    return found, rests


def train(weights: list[Tensor], rests: dict[Tensor, Tensor], update: Callable[[AdamW8bit], None]) -> AdamW8bit:
    """Some steps with the same gradients each time."""
    optimizer = AdamW8bit(weights, lr=1e-2, betas=BETAS, weight_decay=0.1, rests=rests)
    for step in range(STEPS):
        random = torch.Generator().manual_seed(step)
        for one in weights:
            one.grad = torch.randn(one.shape, generator=random).to(one.dtype)
        update(optimizer)
    return optimizer


def in_operations(optimizer: AdamW8bit) -> None:
    """The update in PyTorch's operations alone, by half of each gradient."""
    with torch.no_grad():
        for one in optimizer.param_groups[0]["params"]:
            state = optimizer.state[one]
            state |= {} if state else adamw8bit._empty_state(one)
            state["step"] += 1
            for part, values, gradient in optimizer._parts(one):
                update_part(values, gradient * 0.5, state, part, optimizer.param_groups[0])


def require_same(optimizer: AdamW8bit, reference: AdamW8bit, *, step: float = 1e-2) -> None:
    """Weights as the reference's, but for values whose moments rounded to the other of two levels."""
    for mine, theirs in zip(optimizer.param_groups[0]["params"], reference.param_groups[0]["params"], strict=True):
        rests = optimizer.rests.get(mine), reference.rests.get(theirs)
        mine_whole = mine if rests[0] is None else join(mine, rests[0])
        theirs_whole = theirs if rests[1] is None else join(theirs, rests[1])
        distance = (mine_whole.detach() - theirs_whole.detach()).abs()
        # One level is at most a tenth of a moment, of which a step is made.
        assert float(distance.max()) < 0.2 * step * STEPS
        assert float((distance > 1e-6).float().mean()) < 0.01
        for name, value in reference.state[theirs].items():
            found = optimizer.state[mine][name].float().flatten()[: mine.numel()]
            expected = value.float().flatten()[: mine.numel()]
            differ = ((found - expected).abs() > 1e-6 * expected.abs().clamp_min(1)).float().mean()
            assert float(differ) < 0.01, name


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_pass_on_a_processor_does_what_the_operations_do(split: bool, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast = train(*start(split=split), lambda optimizer: optimizer.step(scale=0.5))
    finally:
        torch.set_num_threads(before)
    require_same(fast, train(*start(split=split), in_operations))


def test_the_pass_on_a_processor_takes_what_fills_whole_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that the fast form is what ran: the operations get the rest alone."""
    rests: list[int] = []
    monkeypatch.setattr(adamw8bit, "update_part", lambda weights, *others: rests.append(len(weights)))
    weights = [torch.zeros(SMALLEST + 10).requires_grad_(), torch.zeros(SMALLEST).requires_grad_()]
    optimizer = AdamW8bit(weights, lr=1e-2, betas=BETAS)
    for one in weights:
        one.grad = torch.ones_like(one)
    optimizer.step()
    assert rests == [10]
    assert bool((weights[1] < 0).all()) and bool((weights[0][:-10] < 0).all())


def test_gradients_are_not_changed_on_a_processor() -> None:
    weights = torch.zeros(SMALLEST * 2).requires_grad_()
    optimizer = AdamW8bit([weights], lr=1e-2, betas=BETAS)
    weights.grad = torch.ones_like(weights)
    optimizer.step(scale=0.25)
    assert bool((weights.grad == 1).all())


def on_gpu(optimizer: AdamW8bit) -> None:
    """The GPU's kernels, here in Triton's interpreter."""
    from utils.training.optimizer.adamw8bit_cuda import update_all

    weights = optimizer.param_groups[0]["params"]
    for one in weights:
        state = optimizer.state[one]
        state |= {} if state else adamw8bit._empty_state(one)
        state["step"] += 1
    optimizer.num_kernels = update_all(weights, optimizer.state, optimizer.rests, optimizer.param_groups[0], 0.5)


def test_the_gpus_kernels_do_what_the_operations_do() -> None:
    """In a process of its own: Triton interprets its kernels or compiles them, which is decided at its import."""
    pytest.importorskip("triton", reason=NEEDS_TRITON)
    command = [sys.executable, "-m", "tests.training.optimizer.test_adamw8bit_kernels"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    child = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert child.returncode == 0, child.stderr
    # One for all that are kept alike: whole or split, quantized or not, aligned or not.
    assert all(0 < int(number) <= len(SHAPES) for number in child.stdout.split())


def interpret() -> None:
    """What the child process does: both kinds of weights, and the kernels of a step."""
    for split in (False, True):
        fast = train(*start(split=split), on_gpu)
        require_same(fast, train(*start(split=split), in_operations))
        sys.stdout.write(f"{fast.num_kernels}\n")


@pytest.mark.parametrize("capability", [75, 90])
@pytest.mark.parametrize("split", [False, True])
def test_the_kernels_are_compiled_for_gpus(capability: int, split: bool) -> None:
    """By Triton and NVIDIA's assembler, which need no GPU: as few wide stores, none of them through local memory."""
    pytest.importorskip("triton", reason=NEEDS_TRITON)
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from utils.training.optimizer.adamw8bit_cuda import _move

    kinds = {"table": "*i64", "owners": "*i32", "places": "*i32", "signed_levels": "*fp32", "unsigned_levels": "*fp32"}
    kinds |= {"factor": "*fp32"} | dict.fromkeys(("lerp", "beta2", "keep", "eps"), "fp32")
    form = {"QUANTIZED": True, "SPLIT": split, "ALIGNED": True, "GRADIENT_TYPE": tl.bfloat16 if split else tl.float32}
    places = {(_move.arg_names.index(name),): value for name, value in form.items()}
    source = ASTSource(_move, kinds | dict.fromkeys(form, "constexpr"), places)
    compiled = compile(source, target=GPUTarget("cuda", capability, 32))
    assert compiled.asm["cubin"]
    assert compiled.asm["ptx"].count("st.global") <= 8 and "st.local" not in compiled.asm["ptx"]


@pytest.mark.gpu
@pytest.mark.parametrize("split", [False, True])
def test_the_kernels_do_on_a_gpu_what_the_operations_do_on_a_processor(split: bool) -> None:
    weights, rests = start(split=split)
    there: list[Tensor] = [one.detach().cuda().requires_grad_() for one in weights]
    moved = {there[place]: rests[one].cuda() for place, one in enumerate(weights) if one in rests}

    def step(optimizer: PlainAdamW) -> None:
        optimizer.step(scale=torch.full((), 0.5, device="cuda"))

    fast = AdamW8bit(there, lr=1e-2, betas=BETAS, weight_decay=0.1, rests=moved)
    for number in range(STEPS):
        random = torch.Generator().manual_seed(number)
        for one in there:
            one.grad = torch.randn(one.shape, generator=random).to("cuda", one.dtype)
        step(fast)
    assert 0 < fast.num_kernels <= 5
    for one in there:
        state = fast.state[one]
        state |= {name: value.cpu() for name, value in state.items()}
    here = [one.detach().cpu() for one in there]
    reference = train(weights, rests, in_operations)
    for mine, theirs in zip(here, reference.param_groups[0]["params"], strict=True):
        assert float((mine.float() - theirs.detach().float()).abs().max()) < 0.2 * 1e-2 * STEPS


def test_a_block_is_what_the_kernels_take_it_for() -> None:
    assert BLOCK % 16 == 0, "codes of a block begin where a GPU reads several at once"


if __name__ == "__main__":
    interpret()
