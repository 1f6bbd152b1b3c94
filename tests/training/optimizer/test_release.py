"""Gradient release: the same weights as with all gradients held, clipped no less, one gradient at a time in memory."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from utils.config import TrainConfig
from utils.errors import UserError
from utils.events import read_events
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.training.optimizations.switches import resolve
from utils.training.optimizer.adamw8bit import AdamW8bit
from utils.training.optimizer.make import BETAS, make_optimizer
from utils.training.optimizer.plain_adamw import FusedAdamW, PlainAdamW
from utils.training.optimizer.release import GradientRelease
from utils.training.run import TrainResult, fine_tune
from utils.training.trainer import Trainer

WIDE = 1e9
"""A norm that nothing is clipped by."""


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    # Weights of the second layer are large enough for 8-bit moments.
    return nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))


def loss_of(model: nn.Module, step: int, *, scale: float = 1.0) -> Tensor:
    random = torch.Generator().manual_seed(step)
    return model(torch.randn(8, 20, generator=random)).square().mean() * scale


def make(kind: type[PlainAdamW], model: nn.Module) -> PlainAdamW:
    return kind(model.parameters(), lr=1e-2, betas=BETAS, weight_decay=0.1)


def plain_step(model: nn.Module, optimizer: PlainAdamW, loss: Tensor, clip_norm: float) -> float:
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return float(norm)


def released_step(release: GradientRelease, loss: Callable[[], Tensor]) -> float:
    if release.last_norm is None:
        with release.measure():
            loss().backward()
        release.note(float(release.norm))
    with release.update():
        loss().backward()
    norm = float(release.norm)
    release.note(norm)
    return norm


@pytest.mark.parametrize("kind", [FusedAdamW, AdamW8bit])
def test_without_clipping_weights_are_those_of_all_gradients_held_to_the_bit(kind: type[PlainAdamW]) -> None:
    ours, theirs = layers(), layers()
    optimizer, release = make(kind, theirs), GradientRelease(make(kind, ours), WIDE)
    for step in range(20):
        norm = released_step(release, lambda step=step: loss_of(ours, step))
        assert norm == pytest.approx(plain_step(theirs, optimizer, loss_of(theirs, step), WIDE), rel=1e-6)
        assert all(parameter.grad is None for parameter in ours.parameters())
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_fused_adamw_is_torchs_to_the_bit() -> None:
    ours, theirs = layers(), layers()
    mine = make(FusedAdamW, ours)
    torchs = torch.optim.AdamW(theirs.parameters(), lr=1e-2, betas=BETAS, weight_decay=0.1, fused=True)
    for step in range(5):
        for model, optimizer in ((ours, mine), (theirs, torchs)):
            loss_of(model, step).backward()
            optimizer.step()
            optimizer.zero_grad()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
        assert all(torch.equal(value, torchs.state[other][key]) for key, value in mine.state[one].items())


def test_a_runs_first_step_is_clipped_exactly_and_later_ones_nearly() -> None:
    ours, theirs = layers(), layers()
    limit = 0.05
    optimizer, release = make(FusedAdamW, theirs), GradientRelease(make(FusedAdamW, ours), limit)
    for step in range(20):
        norm = released_step(release, lambda step=step: loss_of(ours, step))
        exact = plain_step(theirs, optimizer, loss_of(theirs, step), limit)
        if step == 0:
            assert norm == pytest.approx(exact) and norm > 2 * limit
            for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)
    with torch.no_grad():
        first, mine, other = (float(loss_of(model, 99)) for model in (layers(), ours, theirs))
    assert abs(mine - other) < 0.05 * (first - other)


def test_a_gradient_a_thousand_times_larger_than_the_last_is_clipped_by_what_is_known_of_it() -> None:
    class Seen(FusedAdamW):
        squares = 0.0

        def update(self, parameters, group, scale) -> None:
            self.squares += sum(float(parameter.grad.square().sum() * scale**2) for parameter in parameters)
            super().update(parameters, group, scale)

    model = layers()
    optimizer = make(Seen, model)
    release = GradientRelease(optimizer, 0.5)
    released_step(release, lambda: loss_of(model, 0))
    optimizer.squares = 0.0
    norm = released_step(release, lambda: loss_of(model, 1, scale=1e3))
    assert norm > 100
    # Each part at most the limit: the norm so far has it in it. All together at most the root of their number of it.
    assert optimizer.squares <= 0.5**2 * release.num_parameters


def test_a_gradient_that_is_no_number_and_those_after_it_move_nothing_but_the_moments() -> None:
    model = layers()
    release = GradientRelease(make(FusedAdamW, model), 1.0)
    released_step(release, lambda: loss_of(model, 0))
    last = release.last_norm
    before = [parameter.detach().clone() for parameter in model.parameters()]
    released_step(release, lambda: loss_of(model, 1, scale=float("nan")))
    assert release.last_norm == last, "nothing is clipped by it"
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert bool(parameter.isfinite().all()) and float((parameter.detach() - old).abs().max()) < 2e-2


def test_gradients_outside_of_its_passes_are_left_alone() -> None:
    model = layers()
    GradientRelease(make(FusedAdamW, model), 1.0)
    loss_of(model, 0).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def run(project: Project, **settings) -> TrainResult:
    values = {"num_epochs": 2, "batch_size": 2, "device": "cpu", "dropout": 0.1, "sample_text": "", **settings}
    return fine_tune(TrainConfig(base="tiny", project=project.name, output=project.output, **values))


def told(result: TrainResult) -> dict[str, dict]:
    events = list(read_events(result.folder / "events.jsonl"))
    return next(event["switches"] for event in events if event["kind"] == "optimizations")


@pytest.mark.parametrize("settings", [{}, {"eight_bit_optimizer": True, "gradient_checkpointing": "full"}], ids=str)
def test_a_run_with_it_gives_the_same_model_and_says_what_was_seen(project: Project, settings: dict) -> None:
    plain = run(project, grad_clip_norm=WIDE, **settings)
    released = run(project, grad_clip_norm=WIDE, gradient_release=True, **settings)
    assert released.epoch_losses == plain.epoch_losses and released.best_loss == plain.best_loss
    mine, theirs = read_weights(released.checkpoint), read_weights(plain.checkpoint)
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    seen = told(released)["gradient_release"]
    assert seen["state"] == "on" and "inside the backward pass, the largest" in seen["observed"]
    assert told(plain)["gradient_release"]["state"] == "off"


def test_clipping_a_step_late_learns_like_clipping_at_once(project: Project) -> None:
    # The tiny base's gradients have norms of 1.2 and more: all steps are clipped.
    settings = {"num_epochs": 4, "learning_rate": 1e-4}
    plain, late = run(project, **settings), run(project, gradient_release=True, **settings)
    assert late.epoch_losses == pytest.approx(plain.epoch_losses, rel=0.01)
    assert late.best_loss == pytest.approx(plain.best_loss, rel=0.01)


def test_a_resumed_run_clips_by_the_norm_that_was_last(project: Project) -> None:
    settings = {"gradient_release": True, "schedule": "constant"}
    whole = run(project, num_epochs=2, **settings)
    cut = run(project, num_epochs=1, **settings)
    resumed = run(project, num_epochs=2, resume=cut.folder, **settings)
    assert resumed.epoch_losses == whole.epoch_losses
    mine, theirs = read_weights(resumed.checkpoint), read_weights(whole.checkpoint)
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    "settings",
    [{"grad_accumulation": 2}, {"mixed_precision": "fp16"}, {"offload_optimizer": True}, {"compile": "default"}],
    ids=str,
)
def test_what_it_rules_out_is_refused(settings: dict) -> None:
    config = TrainConfig(project="a", gradient_release=True, **settings)
    with pytest.raises(UserError, match="gradient_release updates weights inside the backward pass"):
        config.validate(where="test")


def test_several_processes_leave_it_off_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = resolve(TrainConfig(project="a", gradient_release=True), torch.device("cpu"))
    assert not found.effective.gradient_release and "several processes" in found.off["gradient_release"]


def test_out_of_memory_is_not_tried_again_since_weights_may_have_moved(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Trainer, batches: list) -> None:
        raise MemoryError

    monkeypatch.setattr(Trainer, "_gather", fail)
    with pytest.raises(UserError, match="out of memory at step 1, and gradients cannot be accumulated"):
        run(project, gradient_release=True)


def test_the_optimizer_can_be_made_for_it() -> None:
    optimizer = make_optimizer(layers(), learning_rate=1e-3, weight_decay=0.1, kind="8-bit")
    assert GradientRelease(optimizer, 1.0).num_parameters == 6
