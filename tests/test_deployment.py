"""Compose and Kubernetes files and starters run what there is; the pod after a preempted one resumes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run_as_printed
from tests.sounds import make_project
from tests.webui.app import ROOT

KUBERNETES_VERSION = "1.33"
MANIFESTS = sorted((ROOT / "docker" / "kubernetes").glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def core_kinds(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What Kubernetes itself has a schema for: the document, or what a custom kind holds of it."""
    spec = document.get("spec", {})
    if document["kind"] == "JobSet":
        for job in spec["replicatedJobs"]:
            yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": job["template"]["spec"]}
    elif document["apiVersion"].startswith("serving.knative.dev/"):
        knative = ("containerConcurrency", "timeoutSeconds")
        pod = {key: value for key, value in spec["template"]["spec"].items() if key not in knative}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": pod}
    else:
        yield document


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """Every container, however deep."""
    if isinstance(value, dict):
        yield from value.get("containers", [])
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from containers(part)


@pytest.mark.slow
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_core_kinds_fit_the_schema_of_kubernetes(path):
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test-long installs it")
    for document in documents(path):
        for core in core_kinds(document):
            kubernetes_validate.validate(core, KUBERNETES_VERSION, strict=True)
    assert ("UNCHECKED" in path.read_text(encoding="utf-8")) == any([*core_kinds(it)] != [it] for it in documents(path))


@pytest.mark.slow
def test_the_dockerfile_is_clean():
    hadolint = shutil.which("hadolint", path=Path(sys.executable).parent)
    if hadolint is None:
        pytest.skip("make test-long installs hadolint")
    done = subprocess.run([hadolint, str(ROOT / "docker" / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_servers_that_are_deployed_take_their_flags(monkeypatch):
    services = documents(ROOT / "docker" / "compose.yaml")[0]["services"]
    commands = [services["speech"]["command"], [*services["train"]["entrypoint"], "--project", "maria"]]
    pods = [pod for path in MANIFESTS for document in documents(path) for pod in containers(document)]
    commands += [pod["args"] for pod in pods if "command" not in pod]
    assert len(commands) == 4
    for command in commands:
        run_as_printed(" ".join(command), monkeypatch)
    for name in ("compose.yaml", "Dockerfile"):
        assert "docker/healthy.py" in (ROOT / "docker" / name).read_text(encoding="utf-8")


def test_scripts_of_pods_are_right_for_a_shell():
    scripts = [
        pod["args"][0] for path in MANIFESTS for it in documents(path) for pod in containers(it) if "command" in pod
    ]
    assert len(scripts) == 2
    for script in scripts:
        subprocess.run(["sh", "-n", "-c", script], check=True)


@pytest.mark.slow
def test_the_pod_after_a_preempted_one_resumes_and_finishes(tmp_path):
    job = next(it for it in documents(ROOT / "docker" / "kubernetes" / "train.yaml") if it["kind"] == "Job")
    pod = next(containers(job))
    project = make_project(tmp_path / "output", num_train=24)
    given = {one["name"]: one["value"] for one in pod["env"]} | {"PROJECT": project.name, "BASE": "tiny"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **given, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [*pod["command"], *pod["args"]]

    def events() -> list[dict[str, Any]]:
        logs = list(project.runs.glob("*/events.jsonl"))
        lines = logs[0].read_text(encoding="utf-8").splitlines() if logs else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    with subprocess.Popen(command, cwd=tmp_path, env=environment) as first:
        while first.poll() is None and not any(event["kind"] == "step" for event in events()):
            time.sleep(0.02)
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=120) == 143
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=600)
    assert len(list(project.runs.iterdir())) == 1, "the same run"
    steps = [event["step"] for event in events() if event["kind"] == "step"]
    assert steps == list(range(1, len(steps) + 1)) and events()[-1]["kind"] == "finished"


def test_the_starters_are_right_for_their_shells():
    starter = ROOT / "scripts" / "start.command"
    assert os.access(starter, os.X_OK), "macOS opens it only so"
    subprocess.run(["sh", "-n", str(starter)], check=True)
    lines = (ROOT / "scripts" / "start.bat").read_text(encoding="ascii").splitlines()
    labels = {line[1:] for line in lines if line.startswith(":")}
    assert {line.split("goto ")[1] for line in lines if "goto " in line} == labels
    steps = [line for line in lines if "python -m" in line and "||" in line]
    assert "requirements.txt" in steps[0] and "scripts.torch_for_gpu" in steps[1], "it reads the packages of the first"


def test_the_notebook_clones_from_the_address_that_the_readme_names():
    cells = json.loads((ROOT / "docs" / "colab.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    addresses = re.findall(r"https://github\.com/[^\s\"]+", "\n".join(code))
    assert addresses == re.findall(r"git clone \S+ \S+ (\S+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(addresses) == 1 and '"clone", "--depth", "1", REPOSITORY' in "\n".join(code)
    for number, source in enumerate(code):
        compile(source, f"cell {number}", "exec")
