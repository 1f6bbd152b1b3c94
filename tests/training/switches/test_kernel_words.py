"""Attention kernels have the names of the proof everywhere: in the page's help, the recommendations and the docs."""

import re
from collections.abc import Iterator

import pytest

from tests.hardware.machines import make_gpu, make_machine
from tests.test_architecture import ROOT
from utils.hardware.machine import Machine
from utils.hardware.processor import Cpu
from utils.hardware.recommendations import recommend
from utils.switches import SWITCHES
from utils.training.switches.record import EXPLICIT, KERNELS, PACKAGED, SLOW

NAMES = {*KERNELS.values(), *PACKAGED, EXPLICIT}
"""What a proof says that ran."""
DOCS = (ROOT / "docs" / "training-optimizations.md").read_text(encoding="utf-8")


def _rows(heading: str) -> Iterator[list[str]]:
    """Cells of the table under a heading of the docs."""
    table = DOCS.split(f"## {heading}\n")[1].split("\n## ")[0]
    yield from ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:1] == "|")


def test_the_docs_list_what_a_proof_can_say() -> None:
    (proof,) = (row[2] for row in _rows("What each switch does") if "`--sdpa`" in row[0])
    listed, excluded = proof.split("other than")
    assert set(re.findall("`([^`]+)`", listed)) == NAMES
    assert set(re.findall("`([^`]+)`", excluded)) == SLOW


def test_the_docs_name_each_architectures_kernel() -> None:
    _, _, *rows = _rows("By architecture")
    assert rows and all(row[2].split(", ")[0] in NAMES for row in rows)


def test_the_pages_help_names_the_fast_kernels_and_promises_no_other() -> None:
    reported = next(switch.help for switch in SWITCHES if switch.name == "sdpa")
    # The longest first: "varlen flash" is no mention of "flash".
    for name in sorted(NAMES - SLOW, key=len, reverse=True):
        assert name in reported, name
        reported = reported.replace(name, "")
    assert "fused" not in reported and "flash" not in reported


HALF_CPU = Cpu(model="Test CPU", physical_cores=8, usable_cpus=16, flags=frozenset({"avx512f", "avx512_bf16"}))


@pytest.mark.parametrize(
    ("machine", "kernel"),
    [
        (make_machine(make_gpu(16, (8, 6))), "varlen flash"),
        (make_machine(make_gpu(16, (7, 5))), "memory-efficient"),
        (make_machine(cpu=HALF_CPU), "matrix products (CPU)"),
        (make_machine(), "flash (CPU)"),
    ],
    ids=["Ampere", "Turing", "CPU with bf16", "CPU"],
)
def test_a_recommendation_names_the_kernel_that_will_run(machine: Machine, kernel: str) -> None:
    assert kernel in NAMES
    assert any(f"SDPA: {kernel}" in why or f"let {kernel}" in why for why in recommend("production", machine).reasons)


@pytest.mark.parametrize("pattern", ["fused", "one kernel", "flash kernel", "variable-length flash"])
def test_no_other_words_are_left_for_them(pattern: str) -> None:
    table, architectures = ("\n".join(map(str, _rows(name))) for name in ("What each switch does", "By architecture"))
    assert pattern not in table and pattern not in architectures
