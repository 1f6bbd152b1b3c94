"""Processor, memory and disk are those that this process may use, read without loading torch."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from tests.test_architecture import ROOT
from utils.hardware.processor import Cpu, cpu, parse_cpuinfo, usable_cpus
from utils.hardware.resources import disk_free, memory, process_memory


def test_this_processor_is_described():
    found = cpu()
    assert found.model and found.physical_cores >= 1 and 1 <= found.usable_cpus <= (psutil.cpu_count() or 1)
    assert found.usable_cpus == usable_cpus()


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="only Linux tells all flags")
def test_bf16_units_are_found_as_torch_finds_them():
    has_avx512 = torch.cpu._is_avx512_bf16_supported() and not cpu().is_intel
    assert cpu().has_bf16 == bool(has_avx512 or torch.cpu._is_amx_tile_supported())


@pytest.mark.parametrize(
    ("text", "model", "has_bf16"),
    [
        ("processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu avx512f amx_bf16\nmodel name\t: other\n", "Xeon", True),
        ("model name : Ryzen\nflags : fpu avx2\n", "Ryzen", False),
        ("vendor_id : GenuineIntel\nmodel name : QEMU\nflags : avx512_bf16\n", "QEMU", False),
        ("vendor_id : GenuineIntel\nmodel name : QEMU\nflags : avx512_bf16 amx_bf16\n", "QEMU", True),
        ("vendor_id : AuthenticAMD\nmodel name : EPYC\nflags : avx512_bf16\n", "EPYC", True),
        ("processor : 0\nFeatures : fp asimd bf16\n", "", True),
        ("", "", False),
    ],
)
def test_cpuinfo_of_several_processors(text, model, has_bf16):
    name, vendor, flags = parse_cpuinfo(text)
    assert name == model
    assert Cpu(model=name, vendor=vendor, physical_cores=1, usable_cpus=1, flags=flags).has_bf16 == has_bf16


CGROUPS: dict[str, dict[str, str]] = {
    "version 2": {
        "member": "0::/box\n",
        "box/memory.max": "1000000000",
        "box/memory.current": "400000000",
        "box/memory.stat": "anon 1\ninactive_file 100000000\n",
        "box/cpu.max": "150000 100000",
    },
    "version 1": {
        "member": "8:memory:/box\n7:cpu,cpuacct:/box\n0::/\n",
        "memory/box/memory.limit_in_bytes": "1000000000",
        "memory/box/memory.usage_in_bytes": "400000000",
        "memory/box/memory.stat": "total_inactive_file 100000000\n",
        "memory/memory.limit_in_bytes": str(2**63 - 4096),
        "cpu,cpuacct/box/cpu.cfs_quota_us": "150000",
        "cpu,cpuacct/box/cpu.cfs_period_us": "100000",
    },
}


@pytest.fixture
def in_container(tmp_path, monkeypatch):
    """Pretend to run in a control group with 1 GB of memory and 1.5 CPUs."""

    def enter(version: str) -> None:
        for name, content in CGROUPS[version].items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        monkeypatch.setattr("utils.hardware.resources.CGROUPS", tmp_path)
        monkeypatch.setattr("utils.hardware.resources.MEMBERSHIP", tmp_path / "member")

    return enter


@pytest.mark.parametrize("version", CGROUPS)
def test_the_limits_of_a_container_count(monkeypatch, in_container, version):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    in_container(version)
    found = memory()
    assert found.total_bytes == 1_000_000_000
    assert found.available_bytes == 700_000_000  # what is cached of files is given up when needed
    assert "memory" in found.limited_by
    assert usable_cpus() == 2


def test_memory_of_this_process_grows_with_it():
    before = process_memory()
    # Pages of its own, each touched: an allocator could hand out memory that the process already has.
    with mmap.mmap(-1, 100_000_000) as held:
        for page in range(0, len(held), mmap.PAGESIZE):
            held[page] = 1
        assert process_memory() - before > 80_000_000
    assert process_memory() > 80_000_000
    assert process_memory(pid=2**22 + 1) == 0


def test_disk_space_of_a_folder_that_is_not_there_yet(tmp_path):
    assert disk_free(tmp_path / "not" / "yet") == pytest.approx(disk_free(tmp_path), rel=0.05)


def test_asking_for_all_of_this_does_not_load_torch():
    code = (
        "import sys; from utils.hardware.recommendations import recommend, this_machine; "
        "recommend('production', this_machine()); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
