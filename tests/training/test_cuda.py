"""The CUDA paths, where there is a GPU: kernels, precision, compiled blocks and memory, beside the CPU's results."""

from importlib.util import find_spec

import pytest
import torch

from benchmarks.gpu_parts import gradients
from tests.configs import tiny_run
from tests.run_logs import events_of
from utils.bases.find import find_base
from utils.hardware.gpu import AMPERE
from utils.project.paths import Project
from utils.training.plan import settle
from utils.training.preflight import measure_apart
from utils.training.switches.compile import compiler_problem
from utils.training.train import TrainResult, fine_tune
from utils.training_optimizations import TrainingOptimizer

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
CUDA = torch.device("cuda")
needs_ampere = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < AMPERE, reason="needs Ampere or newer"
)


def run(project: Project, **settings) -> TrainResult:
    values = {"num_epochs": 2, "batch_size": 2, "device": "cuda", "sdpa": True, "dropout": 0.0, **settings}
    return fine_tune(tiny_run(project, **values))


def reported(result: TrainResult) -> dict[str, dict]:
    """As the run ended."""
    events = events_of(result.folder)
    return [event["switches"] for event in events if event["kind"] == "optimizations"][-1]


# Half precision has 8 (bf16) or 11 (fp16) bits: a sum of products is off by about 2^-8 of its parts, TF32 by 2^-11.
CASES = [
    (False, "rows", torch.float32, 5e-3),
    (True, "rows", torch.float32, 5e-3),
    (True, "rows", torch.bfloat16, 6e-2),
    (True, "rows", torch.float16, 2e-2),
    pytest.param(True, "packed", torch.bfloat16, 6e-2, marks=needs_ampere),
    pytest.param(True, "packed", torch.float16, 2e-2, marks=needs_ampere),
]


@pytest.mark.parametrize(("sdpa", "layout", "dtype", "tolerance"), CASES, ids=str)
@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_gradients_equal_those_of_the_cpu(sdpa, layout, dtype, tolerance, checkpointing):
    expected, _ = gradients("cpu", "rows", torch.float32, sdpa=False)
    ours, _ = gradients("cuda", layout, dtype, sdpa=sdpa, checkpointing=checkpointing)
    assert (ours - expected).norm() <= tolerance * expected.norm()


@needs_ampere
def test_the_variable_length_kernel_runs_and_is_told(project):
    seen = reported(run(project, mixed_precision="auto", gradient_checkpointing="full"))
    assert {seen[name]["state"] for name in ("sdpa", "mixed_precision", "gradient_checkpointing", "tf32")} == {"on"}
    assert "varlen flash" in seen["sdpa"]["observed"] and "bfloat16" in seen["mixed_precision"]["observed"]
    assert "pin_memory True" in seen["loader"]["observed"]


def test_fp16_trains_with_the_scaler(project):
    result = run(project, mixed_precision="fp16", num_epochs=4)
    assert "gradient scaler on" in reported(result)["mixed_precision"]["observed"]
    assert result.best_loss < result.first_loss


needs_bitsandbytes = pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs bitsandbytes")


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"eight_bit_optimizer": True}, marks=needs_bitsandbytes),
        pytest.param({"paged_optimizer": True}, marks=needs_bitsandbytes),
        {"lora_rank": 8},
    ],
    ids=str,
)
def test_smaller_optimizers_learn_and_are_told(project, settings):
    result = run(project, num_epochs=4, learning_rate=3e-3, **settings)
    name = next(iter(settings)).replace("lora_rank", "lora")
    assert reported(result)[name]["state"] == "on"
    assert result.best_loss < result.first_loss


# CUDA graphs run a first time as they are, are recorded in the second step and replayed from the third on.
@pytest.mark.parametrize("grad_accumulation", [1, 2])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", pytest.param("max-autotune", marks=pytest.mark.slow)])
def test_compiled_blocks_learn_like_plain_ones_or_say_why_not(project, mode, grad_accumulation):
    same = {"mixed_precision": "auto", "grad_accumulation": grad_accumulation, "num_epochs": 4}
    plain, result = run(project, **same), run(project, **same, compile=mode)
    assert result.epoch_losses == pytest.approx(plain.epoch_losses, rel=0.03)
    assert result.best_loss == pytest.approx(plain.best_loss, rel=0.03)
    seen = reported(result)
    state = seen["compile"]
    assert seen["sdpa"]["state"] == "on", "what compiled code calls is seen"
    if problem := compiler_problem(CUDA):
        assert (state["state"], state["reason"]) == ("off", problem)
    else:
        assert state["state"] == "on" and "skipped" not in state["observed"], state


def test_a_run_goes_on_from_its_checkpoint(project):
    cut = run(project, num_epochs=1, mixed_precision="auto")
    resumed = run(project, num_epochs=3, resume=cut.folder)
    assert resumed.num_steps == 3 * cut.num_steps and resumed.best_loss < cut.first_loss


def test_memory_is_told_and_can_be_limited(project, tmp_path):
    result = run(project, cuda_memory_fraction=0.9)
    assert reported(result)["cuda_memory_fraction"]["state"] == "on"
    memory = events_of(result.folder, "memory")[0]
    assert memory["device"].startswith("cuda") and 0 < memory["allocated_bytes"] <= memory["peak_bytes"]
    assert TrainingOptimizer.get_memory_stats()["total_bytes"] > 1e9


def test_checkpointing_takes_less_memory(project):
    def peak(mode: str) -> int:
        config = tiny_run(project, device="cuda", batch_size=6, gradient_checkpointing=mode)
        return measure_apart(settle(config, project, find_base("tiny")), warmup=1, steps=2).peak_bytes

    assert peak("full") < peak("none")
