"""Check every CUDA path on this machine in minutes: python -m benchmarks.gpu_check, or make gpu-check.

Each part runs in a process of its own, with a time limit and a log. The report is written again after each part, as
JSON and as Markdown for an issue; it names no folders of yours. Without a CUDA GPU, parts that can be emulated or
computed on the CPU run there and are marked, the others are skipped. Exit status 1: a part failed.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from utils.files import write_atomic
from utils.hardware import GIB, this_machine, torch_build
from utils.jobs.environment import ROOT, child_environment
from utils.runs.process import ProcessId, end_tree

ENOUGH_S = 10.0
"""A part is not begun with less time than this."""
CPU, EMULATED = "on the CPU", "emulated"
PARTS = {
    "facts": (60, CPU),
    "attention": (120, EMULATED),
    "steps": (240, CPU),
    "memory": (120, EMULATED),
    "speak": (180, CPU),
    "server": (180, CPU),
    "voice": (240, ""),
    "full_size": (400, ""),
    "two_gpus": (240, ""),
}
"""Of each part of `benchmarks.gpu_parts`: its limit in seconds, and what it does without a CUDA GPU; empty: nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=9.0, help="time for all parts")
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS, help="parts to run")
    parser.add_argument("--add", action="store_true", help="keep the other parts of the report that is there")
    parser.add_argument("--pretend-gb", type=float, default=0.0, help="compute as if the GPU had only so much memory")
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder for the report and logs")
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"machine": facts(), "pretended_gb": flags.pretend_gb, "parts": {}}
    if flags.add and (flags.out / "report.json").is_file():
        report["parts"] = json.loads((flags.out / "report.json").read_text(encoding="utf-8"))["parts"]
    deadline = time.monotonic() + 60 * flags.minutes
    for name in flags.only:
        part = run_part(name, deadline - time.monotonic(), flags.pretend_gb, flags.out)
        report["parts"][name] = part
        write_atomic(flags.out / "report.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        write_atomic(flags.out / "report.md", markdown(report))
        print(f"{name:10} {part['state']:8} {part['how']:11} {part['seconds']:4.0f} s  {part['reason']}", flush=True)
    print(f"\n{markdown(report)}")
    sys.exit(any(part["state"] == "failed" for part in report["parts"].values()))


def facts() -> dict[str, str]:
    """What the report says of the machine; torch is not loaded."""
    machine, gpu = this_machine(), this_machine().gpu
    found = {"system": platform.platform(), "torch": torch_build().version, "CPU": machine.cpu.model}
    if gpu is None:
        return found | {"GPU": machine.gpu_reason or "none"}
    size = f"{gpu.total_bytes / GIB:.0f} GB"
    return found | {
        "GPU": f"{gpu.name}, {gpu.capability}, {size}, driver {gpu.driver}",
        "problems": "; ".join(machine.gpu_problems) or "none",
    }


def run_part(name: str, left_s: float, pretend_gb: float, out: Path) -> dict[str, Any]:
    """Run a part in a process, and end it with its children when its time is over.

    Returns:
        state (passed, failed or skipped), how it computed, its seconds, the reason of a failure, lines of the report.
    """
    limit_s, without_gpu = PARTS[name]
    device = "cuda" if this_machine().has_usable_gpu else "cpu"
    how, begun = "CUDA" if device == "cuda" else without_gpu, time.monotonic()
    if not how or left_s < ENOUGH_S:
        reason = "no time was left: run it with --add --only" if how else "needs a CUDA GPU"
        return {"state": "skipped", "how": how, "seconds": 0.0, "reason": reason, "lines": []}
    log, reason = out / f"{name}.log", ""
    with tempfile.TemporaryDirectory() as scratch, log.open("w", encoding="utf-8") as file:
        said = Path(scratch) / "lines"
        command = [sys.executable, "-m", "benchmarks.gpu_parts", name, device, str(said), str(pretend_gb)]
        environment = child_environment(XTTS_STUDIO_GPU_CHECK=scratch)
        child = subprocess.Popen(command, stdout=file, stderr=file, cwd=ROOT, env=environment)
        try:
            code = child.wait(timeout=min(limit_s, left_s))
        except subprocess.TimeoutExpired:
            end_tree(ProcessId.of(child.pid), whole_session=False)
            child.wait()
            code, reason = 1, "it took too long and was ended"
        lines = scrubbed(said.read_text(encoding="utf-8")).splitlines() if said.is_file() else []
    text = scrubbed(log.read_text(encoding="utf-8", errors="replace"))
    log.write_text(text, encoding="utf-8")
    if code:
        reason = reason or (text.strip().splitlines() or [f"it ended with status {code}"])[-1]
    skipped = [line.removeprefix("skipped:").strip() for line in lines if line.startswith("skipped:")]
    state = "failed" if code else "skipped" if skipped else "passed"
    seconds = round(time.monotonic() - begun, 1)
    return {"state": state, "how": how, "seconds": seconds, "reason": "".join([reason, *skipped]), "lines": lines}


def scrubbed(text: str) -> str:
    """Without folders of this machine, which name people and projects."""
    for folder, name in ((ROOT, "."), (sys.prefix, "(environment)"), (Path.home(), "~")):
        text = text.replace(str(folder), name)
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[\w.-]+", "(temporary)", text)


def markdown(report: dict[str, Any]) -> str:
    """The report for people; it can be pasted into an issue."""
    facts = report["machine"] | ({"memory used": f"{report['pretended_gb']:g} GB"} if report["pretended_gb"] else {})
    lines = ["# GPU check", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += ["| part | result | computed | seconds | reason |", "| --- | --- | --- | --- | --- |"]
    details = []
    for name, part in report["parts"].items():
        values = name, f"**{part['state']}**", part["how"], f"{part['seconds']:.0f}", part["reason"].replace("|", "/")
        lines.append(f"| {' | '.join(values)} |")
        details += ["", f"## {name}, {part['how']}", *(f"- {line}" for line in part["lines"])] if part["lines"] else []
    return "\n".join([*lines, *details]) + "\n"


if __name__ == "__main__":
    main()
