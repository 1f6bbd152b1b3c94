"""Describe the CPU: model, matrix units, usable cores, compilers.

Read from the operating system, without loading torch.
"""

import math
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from utils.hardware.resources import cgroup_folders, read_number

CPUINFO = Path("/proc/cpuinfo")
BF16_FLAGS = frozenset({"amx_bf16", "bf16"})
"""Flags of processors that multiply bf16 matrices faster than float32 ones: x86's matrix tiles, and Arm's."""
AVX512_BF16 = "avx512_bf16"
"""Faster on AMD; half as fast as float32 on an Intel Xeon whose AMX is absent or hidden by the virtual machine: 83 and
154 GFLOP/s a core, measured with torch 2.11."""


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """The processor."""

    model: str
    physical_cores: int
    """Of the whole machine."""
    usable_cpus: int
    """Hardware threads that this process may use: affinity and container limits counted."""
    flags: frozenset[str] = frozenset()
    """Instruction sets by their Linux names; only those that this operating system reports."""
    vendor: str = ""
    """GenuineIntel, AuthenticAMD, ...; empty where the system does not report it."""
    flags_known: bool = True
    """False where the operating system does not report them all (Windows)."""

    @property
    def has_bf16(self) -> bool:
        """Whether it is known to multiply bf16 matrices in hardware, and faster than float32 ones."""
        return bool(self.flags & BF16_FLAGS) or (AVX512_BF16 in self.flags and not self.is_intel)

    @property
    def emulates_bf16(self) -> bool:
        """Whether bf16 takes many times as long as float32, as far as the flags are known."""
        return not self.has_bf16 and AVX512_BF16 not in self.flags

    @property
    def is_intel(self) -> bool:
        """Whether Intel made it."""
        return "intel" in f"{self.vendor} {self.model}".lower()


def cpu() -> Cpu:
    """The processor of this machine."""
    model, vendor, flags, known = _identity()
    return Cpu(
        model=model or platform.processor() or platform.machine() or "unknown processor",
        vendor=vendor,
        physical_cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        usable_cpus=usable_cpus(),
        flags=flags,
        flags_known=known,
    )


def usable_cpus() -> int:
    """Hardware threads that this process may use, at least 1.

    A container limited to two CPUs of a large machine still sees all of them, and a thread on each makes it slower.
    """
    allowed: list[float] = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    for folder in cgroup_folders("cpu"):
        try:
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            quota, period = (str(read_number(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            allowed.append(int(quota) / int(period))
    return max(1, math.ceil(min(allowed)))


def compiler() -> str:
    """Path of the C++ compiler that torch.compile would use, or empty: $CXX when it is set, else the system's."""
    chosen = os.environ.get("CXX")
    return shutil.which(chosen or {"Windows": "cl", "Darwin": "clang++"}.get(platform.system(), "g++")) or ""


def parse_cpuinfo(text: str) -> tuple[str, str, frozenset[str]]:
    """Model name, vendor and flags of the first processor of a /proc/cpuinfo; x86 and Arm name them differently."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    names = fields.get("model name", ""), fields.get("vendor_id", "")
    return *names, frozenset((fields.get("flags") or fields.get("features") or "").split())


@cache
def _identity() -> tuple[str, str, frozenset[str], bool]:
    """Model name, vendor, flags and whether all flags are known; a processor does not change while we run."""
    if CPUINFO.is_file():
        return *parse_cpuinfo(CPUINFO.read_text(encoding="utf-8", errors="replace")), True
    if platform.system() == "Darwin":
        flags = {"bf16"} if _sysctl("hw.optional.arm.FEAT_BF16") == "1" else set()
        return _sysctl("machdep.cpu.brand_string"), _sysctl("machdep.cpu.vendor"), frozenset(flags), True
    if platform.system() == "Windows":
        import ctypes
        import winreg

        avx512f = 41  # PF_AVX512F_INSTRUCTIONS_AVAILABLE
        with winreg.OpenKey(  # type: ignore[attr-defined, unused-ignore]
            winreg.HKEY_LOCAL_MACHINE,  # type: ignore[attr-defined, unused-ignore]
            r"HARDWARE\DESCRIPTION\System\CentralProcessor\0",
        ) as key:
            name = winreg.QueryValueEx(key, "ProcessorNameString")[0]  # type: ignore[attr-defined, unused-ignore]
        # The one flag that Windows reports: it has no number for bf16 units.
        has = ctypes.windll.kernel32.IsProcessorFeaturePresent(avx512f)  # type: ignore[attr-defined, unused-ignore]
        return str(name).strip(), "", frozenset({"avx512f"} if has else ()), False
    return "", "", frozenset(), False


def _sysctl(name: str) -> str:
    """A value of macOS, or empty when it has none of that name."""
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip()
