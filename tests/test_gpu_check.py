"""The check of the CUDA paths: it ends in time, continues after failures, and its emulations find what they are for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_check, gpu_parts
from tests.emulated_flash import calls, emulated_flash
from tests.hardware.machines import make_gpu, make_machine
from utils.model.attention import varlen_attention

FAKE_PARTS = """
import os, sys, time
from pathlib import Path
name, device, said = sys.argv[1:]
memory = os.environ.get("PYTORCH_ALLOC_CONF")
Path(said).write_text(f"computed on {device} by {sys.executable} with {memory}\\n")
if name == "steps":
    sys.exit(f"no kernels | in {sys.prefix}/lib")
if name == "memory":
    time.sleep(60)
if name == "speak":
    Path(said).write_text("skipped\\n")
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parts that do nothing but fail, hang and skip."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "gpu_parts.py").write_text(FAKE_PARTS, encoding="utf-8")
    monkeypatch.setattr(gpu_check, "child_environment", lambda **more: {"PYTHONPATH": str(tmp_path), **more})
    monkeypatch.setattr(gpu_check, "ROOT", tmp_path)
    monkeypatch.setattr(gpu_check, "ENOUGH_S", 0.0)
    return tmp_path


def check(monkeypatch: pytest.MonkeyPatch, out: Path, *flags: str) -> tuple[int, dict, str]:
    monkeypatch.setattr(sys, "argv", ["gpu_check", "--out", str(out), *flags])
    with pytest.raises(SystemExit) as ended:
        gpu_check.main()
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return int(ended.value.code or 0), report, (out / "report.md").read_text(encoding="utf-8")


def test_a_check_continues_after_failures_and_names_no_folders(parts, monkeypatch):
    only = ("--only", "facts", "steps", "speak", "full_size")
    status, found, text = check(monkeypatch, parts / "out", *only)
    assert status == 1
    assert [found[name]["state"] for name in only[1:]] == ["passed", "failed", "skipped", "skipped"]
    assert found["facts"]["lines"][0].startswith("computed on cpu by python") and found["facts"]["how"] == "on the CPU"
    assert found["full_size"]["reason"] == "needs a CUDA GPU"
    assert "## steps: failed, on the CPU" in text and "no kernels | in lib" in text
    assert sys.prefix not in text and str(parts) not in text and str(Path.home()) not in text


def test_a_part_that_hangs_is_ended(parts, monkeypatch):
    monkeypatch.setattr(gpu_check, "LIMIT_S", 1.0)
    status, found, _ = check(monkeypatch, parts / "out", "--only", "memory")
    assert status == 1 and found["memory"]["reason"] == "it took too long and was ended"


def test_a_large_card_plays_a_small_one(parts, monkeypatch):
    gpu = make_gpu(80, (9, 0))
    monkeypatch.setattr(gpu_check, "this_machine", lambda: make_machine(gpu))
    _, found, _ = check(monkeypatch, parts / "out", "--only", "facts", "--pretend-gb", "8")
    assert found["facts"]["how"] == "CUDA, 10% of its memory"
    assert "computed on cuda" in found["facts"]["lines"][0]
    assert "per_process_memory_fraction:0.1" in found["facts"]["lines"][0], "its children inherit it"


def test_parts_are_added_to_a_report_and_skipped_without_time(parts, monkeypatch):
    assert check(monkeypatch, parts / "out", "--only", "facts")[0] == 0
    monkeypatch.setattr(gpu_check, "ENOUGH_S", 10.0)
    status, found, _ = check(monkeypatch, parts / "out", "--add", "--only", "server", "--minutes", "0.01")
    assert status == 0 and list(found) == ["facts", "server"]
    assert found["server"]["reason"].startswith("no time was left")


def test_the_process_that_starts_the_parts_does_not_load_torch():
    code = "import sys, benchmarks.gpu_check; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=gpu_check.ROOT, check=False).returncode == 0


def test_every_part_exists():
    assert all(callable(getattr(gpu_parts, name)) for name in gpu_check.PARTS)


@pytest.mark.slow
def test_the_packed_layout_of_a_gpu_has_the_gradients_of_the_reference(tmp_path):
    """Through CPU kernels in place of CUDA's variable-length flash attention, in every checkpointing mode."""
    before = calls["backward"]
    gpu_parts.attention(gpu_parts.Check("cpu", str(tmp_path / "lines")))
    lines = (tmp_path / "lines").read_text(encoding="utf-8").splitlines()
    assert [line.split(", ")[3] for line in lines] == ["flash (CPU)"] * 6 + ["varlen flash"] * 3
    assert calls["backward"] - before == 3 * 4, "once in each block"


def test_the_emulated_kernel_refuses_what_cudas_would():
    q = torch.ones(1, 2, 8, 16)
    with emulated_flash(), pytest.raises(AssertionError):
        varlen_attention(q, q, q, cu_seqlens=torch.tensor([0, 8], dtype=torch.int32), max_seqlen=8)
