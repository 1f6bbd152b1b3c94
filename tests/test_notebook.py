"""The notebook trains and speaks from its first cell to its last but the shared page, also after it was cut off."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.test_architecture import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def stop_after_a_step(output: Path) -> None:
    """End the training, as a runtime that is taken away does."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        for log in output.glob("demo/runs/*/events.jsonl"):
            if '"kind": "step"' in log.read_text(encoding="utf-8"):
                os.kill(json.loads((log.parent / "job.json").read_text(encoding="utf-8"))["pid"], signal.SIGTERM)
                return
        time.sleep(0.05)


def test_the_notebook_resumes_after_a_disconnect_and_speaks(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="make test-long installs it")
    nbformat = pytest.importorskip("nbformat", reason="make test-long installs it")
    monkeypatch.setenv("STUDIO", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run() -> None:
        notebook = nbformat.read(ROOT / "docs" / "colab.ipynb", as_version=4)
        nbformat.validate(notebook)
        notebook.cells = [cell for cell in notebook.cells if "page" not in cell.metadata.get("tags", ())]
        settings = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
        settings.source += '\nBASE = "tiny"'
        nbclient.NotebookClient(notebook, timeout=1500, resources={"metadata": {"path": str(tmp_path)}}).execute()

    stopping = threading.Thread(target=stop_after_a_step, args=[tmp_path / "output"], daemon=True)
    stopping.start()
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="train ended with 143"):
        run()
    run()
    project = tmp_path / "output" / "demo"
    assert len(list(project.glob("runs/*/config.yaml"))) == 1, "the same run was resumed"
    assert (project / "ready" / "model.pth").is_file() and (project / "spoken.wav").stat().st_size > 1000
