"""The offloaded AdamW: fused AdamW bit for bit, in chunks, and no memory beyond its estimate."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.saving import save_last
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.checkpoints.store import Checkpoints
from utils.hardware.estimates import OFFLOAD_BUFFERS, ModelSize, Step, estimate
from utils.model.lora import add_lora
from utils.training.optimizer.make import BETAS, make_optimizer
from utils.training.optimizer.offload import CUT, OffloadedAdamW, chunks_of
from utils.training.restore import load_optimizer, restore_model

SIZES = [(1,), (63,), (64,), (65,), (7, 131), (1000,), (), (0,), (33, 40)]
CHUNK = 256


def parameters() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(size).requires_grad_() for size in SIZES]


def fused(params: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=1e-2, betas=BETAS, weight_decay=0.1, fused=True)


def offloaded(params: Any) -> OffloadedAdamW:
    return OffloadedAdamW(params, lr=1e-2, betas=BETAS, weight_decay=0.1, chunk=CHUNK)


def give_gradients(params: list[Tensor], seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    for parameter in params:
        parameter.grad = torch.randn(parameter.shape, generator=random)


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))


def assert_same_state(ours: torch.optim.Optimizer, theirs: torch.optim.Optimizer, params: list, others: list) -> None:
    for mine, other in zip(params, others, strict=True):
        assert ours.state[mine].keys() == theirs.state[other].keys()
        assert all(torch.equal(ours.state[mine][key], theirs.state[other][key]) for key in ours.state[mine])


def test_updates_are_fused_adamws_bit_for_bit_whatever_the_chunks() -> None:
    ours, theirs = parameters(), parameters()
    mine, other = offloaded(ours), fused(theirs)
    for step in range(5):
        give_gradients(ours, step)
        give_gradients(theirs, step)
        mine.step()
        other.step()
        assert_same(ours, theirs)
    assert_same_state(mine, other, ours, theirs)


def test_chunks_hold_each_value_once_and_never_more_than_their_size() -> None:
    params = parameters()
    chunks = chunks_of(params, CHUNK)
    covered = {id(parameter): torch.zeros(parameter.numel()) for parameter in params}
    for pieces, length in chunks:
        assert 0 < length <= CHUNK
        assert [piece.place.start for piece in pieces] == [0, *(piece.place.stop for piece in pieces[:-1])]
        assert pieces[-1].place.stop == length
        for piece in pieces:
            covered[id(piece.parameter)][piece.part] += 1
            assert piece.part.start % CUT == 0
            assert piece.part.stop - piece.part.start == piece.place.stop - piece.place.start
    assert all(bool((times == 1).all()) for times in covered.values())
    assert all(length > CHUNK - CUT for _, length in chunks[:-1])


class Allocations(TorchDispatchMode):
    """Bytes of new memory that operations made."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in before:
                self.total += tensor.untyped_storage().nbytes()
                self.largest = max(self.largest, tensor.untyped_storage().nbytes())
        return out


def test_a_step_takes_no_memory_beyond_master_moments_and_two_buffers() -> None:
    params = [torch.randn(700, 90).requires_grad_(), torch.randn(5_000).requires_grad_()]
    count = sum(parameter.numel() for parameter in params)
    optimizer = OffloadedAdamW(params, lr=1e-3, betas=BETAS, chunk=1_024)
    give_gradients(params, 0)
    with Allocations() as first:
        optimizer.step()
    scalars = 64 * len(params) * (count // 1_024 + 2)
    assert first.total <= 12 * count + 2 * 4 * 1_024 + scalars
    assert first.total >= 12 * count, "the master copy and both moments are of its own"
    with Allocations() as later:
        optimizer.step()
    assert later.largest <= 8 and later.total <= scalars, "only counts of steps"
    assert optimizer.staging_bytes == 2 * 4 * 1_024


def test_the_estimate_has_master_moments_and_buffers() -> None:
    model = ModelSize(num_parameters=10_000_000)
    needed = estimate(Step(device="cuda", batch_size=1, offload_optimizer=True), model)
    assert needed.host == 12 * 10_000_000 + OFFLOAD_BUFFERS and needed.optimizer == 0


def test_parameters_without_a_gradient_stay_and_do_not_count() -> None:
    ours, theirs = parameters(), parameters()
    mine, other = offloaded(ours), fused(theirs)
    for step in range(4):
        for params, optimizer in ((ours, mine), (theirs, other)):
            give_gradients(params, step)
            for index in (step, 4):
                params[index].grad = None
            optimizer.step()
    assert_same(ours, theirs)
    assert ours[4] not in mine.state, "one that never had a gradient has no moments"


def test_weights_that_others_changed_are_read_again() -> None:
    ours, theirs = parameters(), parameters()
    mine, other = offloaded(ours), fused(theirs)
    for step in range(4):
        for params, optimizer in ((ours, mine), (theirs, other)):
            give_gradients(params, step)
            if step == 1:
                with torch.no_grad():
                    params[5].mul_(2)
            if step == 2:
                params[4].data = torch.ones_like(params[4])
            optimizer.step()
    assert_same(ours, theirs)


@pytest.mark.parametrize("with_lora", [False, True], ids=["all weights", "LoRA"])
def test_a_checkpoint_goes_on_bit_for_bit_also_one_that_fused_adamw_wrote(with_lora: bool, tmp_path: Path) -> None:
    def model() -> nn.Module:
        gpt = load_gpt(find_base("tiny"))
        for part in (gpt.conditioning_encoder, gpt.conditioning_perceiver):
            part.requires_grad_(False)
        return add_lora(gpt, 2, seed=5) if with_lora else gpt

    def learning(gpt: nn.Module) -> list[Tensor]:
        return [parameter for parameter in gpt.parameters() if parameter.requires_grad]

    def optimizer_of(gpt: nn.Module, kind: Any) -> torch.optim.Optimizer:
        return make_optimizer(gpt, learning_rate=1e-3, weight_decay=0.1, kind=kind)

    def train(gpt: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
        for step in steps:
            give_gradients(learning(gpt), step)
            torch.nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
            optimizer.step()

    whole, cut = model(), model()
    plain, mine = optimizer_of(whole, "fused"), optimizer_of(cut, "offloaded")
    train(whole, plain, range(2))
    train(cut, mine, range(2))
    written = {"fused": (whole, plain), "offloaded": (cut, mine)}
    folders = {kind: save_last(Checkpoints(tmp_path / kind), 2, *parts, {}) for kind, parts in written.items()}
    train(whole, plain, range(2, 4))
    for folder in folders.values():
        resumed = model()
        optimizer = optimizer_of(resumed, "offloaded")
        restore_model(folder, resumed)
        load_optimizer(folder, resumed, optimizer)
        train(resumed, optimizer, range(2, 4))
        assert_same(learning(resumed), learning(whole))
        assert_same_state(optimizer, plain, learning(resumed), learning(whole))


def test_torchs_own_state_dict_goes_on_exactly() -> None:
    ours, theirs = parameters(), parameters()
    mine, other = offloaded(ours), fused(theirs)
    for params, optimizer in ((ours, mine), (theirs, other)):
        give_gradients(params, 0)
        optimizer.step()
    copies = [parameter.detach().clone().requires_grad_() for parameter in ours]
    again = offloaded(copies)
    again.load_state_dict(mine.state_dict())
    for params, optimizer in ((copies, again), (theirs, other)):
        give_gradients(params, 1)
        optimizer.step()
    assert_same(copies, theirs)


def test_a_scaler_that_finds_an_infinite_gradient_leaves_all_as_it_is() -> None:
    ours, theirs = parameters(), parameters()
    optimizers, scalers = (offloaded(ours), fused(theirs)), [torch.amp.GradScaler("cpu") for _ in range(2)]
    for step in range(3):
        for params, optimizer, scaler in zip((ours, theirs), optimizers, scalers, strict=True):
            before = [parameter.detach().clone() for parameter in params]
            scaler.scale(torch.zeros(()))  # makes the scale
            give_gradients(params, step)
            for parameter in params:
                parameter.grad *= scaler.get_scale()
            if step == 1:
                params[4].grad[0, 0] = float("inf")
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            scaler.step(optimizer)
            scaler.update()
            assert (step == 1) == all(torch.equal(a, b) for a, b in zip(before, params, strict=True))
        assert_same(ours, theirs)
