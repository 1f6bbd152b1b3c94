"""Check every CUDA path on this machine in minutes: python -m benchmarks.gpu_check, or make gpu-check.

Each part runs in a process of its own, with a time limit and a log. The report is written again after each part, as
JSON and as Markdown for an issue; it names no folders of yours. Without a CUDA GPU, parts that can be emulated or
computed on the CPU run there and are marked, the others are skipped. Exit status 1: a part failed.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import tyro

from utils.files import write_atomic
from utils.hardware.environment import ROOT, child_environment
from utils.hardware.machine import this_machine
from utils.hardware.resources import GIB
from utils.runs.process import ProcessId, end_tree

ENOUGH_S = 10.0
"""A part is not begun with less time than this."""
CPU, EMULATED = "on the CPU", "emulated"
LIMIT_S = 300.0
"""A part that takes longer is ended."""
PARTS = {
    "facts": CPU,
    "attention": EMULATED,
    "steps": CPU,
    "memory": EMULATED,
    "speak": CPU,
    "server": CPU,
    "voice": "",
    "full_size": "",
    "two_gpus": "",
}
"""Of each part of `benchmarks.gpu_parts`: what it does without a CUDA GPU; empty: nothing."""
FOLDER = re.compile(r"(?<![\w/:.])(?:[A-Za-z]:)?(?:[/\\][^\s/\\'\"]+)+[/\\]")


def main() -> None:
    tyro.cli(check)


def check(
    *,
    minutes: float = 9.0,
    only: tuple[Literal[*PARTS], ...] = tuple(PARTS),  # type: ignore[valid-type]
    add: bool = False,
    pretend_gb: float = 0.0,
    out: Path = Path("gpu-check"),
) -> None:
    """Check every CUDA path on this machine in minutes.

    Args:
        minutes: time for all parts.
        only: parts to run.
        add: keep the other parts of the report that is there.
        pretend_gb: compute as if the GPU had only so much memory.
        out: folder for the report and logs.
    """
    out.mkdir(parents=True, exist_ok=True)
    report, parts = out / "report.json", dict[str, Any]()
    if add and report.is_file():
        parts = json.loads(report.read_text(encoding="utf-8"))
    machine, ends = this_machine(), time.monotonic() + 60 * minutes
    gpu = None if machine.gpu_problems else machine.gpu
    share = min(1.0, pretend_gb * GIB / gpu.total_bytes) if gpu else 0.0
    for name in only:
        parts[name] = run_part(name, "cuda" if gpu else "cpu", ends - time.monotonic(), share, out)
        print(section(name, parts[name]), flush=True)
        write_atomic(report, json.dumps(parts, indent=1))
        write_atomic(out / "report.md", "\n".join(section(*one) for one in parts.items()))
    sys.exit(any(found["state"] == "failed" for found in parts.values()))


def run_part(name: str, device: str, left_s: float, share: float, out: Path) -> dict[str, Any]:
    """Run a part in a process, and end it with its children when its time is over.

    Args:
        name: of the part.
        device: cpu or cuda.
        left_s: time for it, in seconds.
        share: of the GPU's memory that it and its children may use; 0 for all.
        out: folder for its log.

    Returns:
        state (passed, failed or skipped), how it computed, its seconds, the reason of a failure, lines of the report.
    """
    how, reason = PARTS[name] if device == "cpu" else f"CUDA, {share or 1:.0%} of its memory", ""
    part = {"state": "skipped", "how": how or "not run", "seconds": 0.0, "lines": [], "reason": "needs a CUDA GPU"}
    if not how or left_s < ENOUGH_S:
        return part | ({"reason": "no time was left: run it with --add --only"} if how else {})
    log, begun = out / f"{name}.log", time.monotonic()
    memory = {"PYTORCH_ALLOC_CONF": f"expandable_segments:True,per_process_memory_fraction:{share}"} if share else {}
    with tempfile.TemporaryDirectory() as scratch, log.open("w", encoding="utf-8") as file:
        said = Path(scratch) / "lines"
        said.touch()
        command = [sys.executable, "-m", "benchmarks.gpu_parts", name, device, str(said)]
        child = subprocess.Popen(command, stdout=file, stderr=file, cwd=ROOT, env=child_environment(**memory))
        try:
            code = child.wait(timeout=min(LIMIT_S, left_s))
        except subprocess.TimeoutExpired:
            end_tree(ProcessId.of(child.pid), whole_session=False)
            child.wait()  # which may say 0, where ending it has waited for it already
            code, reason = 1, "it took too long and was ended"
        lines = scrubbed(said.read_text(encoding="utf-8")).splitlines()
    if code and not reason:
        # A fault that users can fix ends in further lines, which begin with a blank.
        *_, reason = "", *re.findall(r"(?m)^\S.*", scrubbed(log.read_text(encoding="utf-8", errors="replace")))
    state = "failed" if code else "skipped" if "skipped" in lines[:1] else "passed"
    return part | {"state": state, "seconds": time.monotonic() - begun, "lines": lines, "reason": reason}


def scrubbed(text: str) -> str:
    """Without folders of this machine, which name people and projects."""
    for folder in (ROOT, Path.home()):
        text = text.replace(str(folder), "")
    return FOLDER.sub("", text)


def section(name: str, part: dict[str, Any]) -> str:
    """One part for people."""
    title = "## {}: {state}, {how}, {seconds:.0f} s {reason}".format(name, **part)
    return "\n- ".join([title, *part["lines"]]) + "\n"


if __name__ == "__main__":
    main()
