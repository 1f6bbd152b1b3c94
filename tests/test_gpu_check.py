"""The check of the CUDA paths: it ends in time, goes on after failures, and its emulations find what they are for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_check, gpu_parts
from tests.emulated_flash import calls, emulated_flash
from utils.model.attention import varlen_attention
from utils.model.gpt import XttsGpt

FAKE_PARTS = """
import sys, time
from pathlib import Path
name, device, said, pretend_gb = sys.argv[1:]
Path(said).write_text(f"computed on: {device}, {pretend_gb} GB, by {sys.executable}\\n")
if name == "steps":
    sys.exit(f"no kernels | in {sys.prefix}/lib")
if name == "memory":
    time.sleep(60)
if name == "speak":
    Path(said).write_text("skipped:  needs two GPUs")
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parts that do nothing but fail, hang and skip."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "gpu_parts.py").write_text(FAKE_PARTS, encoding="utf-8")
    monkeypatch.setattr(gpu_check, "child_environment", lambda **_: {"PYTHONPATH": str(tmp_path)})
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    monkeypatch.setattr(gpu_check, "ENOUGH_S", 0.0)
    monkeypatch.setitem(gpu_check.PARTS, "memory", (2, gpu_check.EMULATED))
    return tmp_path


def check(monkeypatch: pytest.MonkeyPatch, out: Path, *flags: str) -> tuple[int, dict, str]:
    monkeypatch.setattr(sys, "argv", ["gpu_check", "--out", str(out), *flags])
    with pytest.raises(SystemExit) as ended:
        gpu_check.main()
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return int(ended.value.code or 0), report["parts"], (out / "report.md").read_text(encoding="utf-8")


def test_a_check_continues_after_failures_ends_in_time_and_names_no_folders(parts: Path, monkeypatch) -> None:
    only = ("--only", "facts", "steps", "memory", "speak", "full_size")
    status, found, text = check(monkeypatch, parts / "out", *only, "--pretend-gb", "8")
    assert status == 1
    assert [found[name]["state"] for name in only[1:]] == ["passed", "failed", "failed", "skipped", "skipped"]
    assert found["facts"]["lines"][0].startswith("computed on: cpu, 8.0 GB") and found["facts"]["how"] == "on the CPU"
    assert found["memory"]["reason"] == "it took too long and was ended" and found["memory"]["seconds"] < 30
    assert (found["speak"]["reason"], found["full_size"]["reason"]) == ("needs two GPUs", "needs a CUDA GPU")
    assert "| steps | **failed** | on the CPU |" in text and "no kernels / in (environment)/lib" in text
    assert sys.prefix not in text and str(parts) not in text and "8 GB" in text


def test_parts_are_added_to_a_report_and_skipped_without_time(parts: Path, monkeypatch) -> None:
    assert check(monkeypatch, parts / "out", "--only", "facts")[0] == 0
    monkeypatch.setattr(gpu_check, "ENOUGH_S", 10.0)
    status, found, _ = check(monkeypatch, parts / "out", "--add", "--only", "server", "--minutes", "0.01")
    assert status == 0 and list(found) == ["facts", "server"]
    assert found["server"]["reason"].startswith("no time was left")


def test_the_process_that_starts_the_parts_does_not_load_torch() -> None:
    code = "import sys, benchmarks.gpu_check; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=gpu_check.ROOT, check=False).returncode == 0


def test_every_part_exists() -> None:
    assert [part.__name__ for part in gpu_parts.CHECKS] == list(gpu_check.PARTS)


@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_the_packed_layout_of_a_gpu_has_the_gradients_of_the_reference(checkpointing: str, monkeypatch) -> None:
    """Through CPU kernels in place of CUDA's variable-length flash attention."""
    truth, _ = gpu_parts.gradients("cpu", "rows", torch.float32, sdpa=False)
    monkeypatch.setattr(XttsGpt, "_attend", gpu_parts.attend_as_on_cuda)
    before = calls["backward"]
    with emulated_flash():
        found, kernels = gpu_parts.gradients("cpu", "packed", torch.bfloat16, checkpointing=checkpointing)
    assert float((found - truth).norm() / truth.norm()) < 0.02 and kernels == "varlen flash"
    assert calls["backward"] - before == 4, "once in each block"


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_kernels_are_seen_in_every_checkpointing_mode(checkpointing: str) -> None:
    options = {"sdpa": True, "checkpointing": checkpointing}
    assert gpu_parts.gradients("cpu", "rows", torch.float32, **options)[1] == "flash (CPU)"


def test_the_emulated_kernel_refuses_what_cudas_would() -> None:
    q = torch.ones(1, 2, 8, 16)
    with emulated_flash(), pytest.raises(AssertionError):
        varlen_attention(q, q, q, cu_seqlens=torch.tensor([0, 8], dtype=torch.int32), max_seqlen=8)
