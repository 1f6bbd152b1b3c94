"""Calls as published guides for these switches spell them, from one plain Python process: what a person then sees."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.hub_server import HubServer, published_tiny
from tests.sounds import make_project
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.project.paths import Project

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["ሰላም ለዓለም።", "ጤና ይስጥልኝ።", "በ2015 ዓ.ም. ተወለደ።", "ዶ/ር አበበ መጣ።", "ፀሐይ ወጣች።", "ቋንቋ ሀብት ነው።"]

CALLS = """
import sys, time
sys.path.insert(0, {root!r})
def heading(name):
    print("==", name, flush=True)

heading("train_gpt")
from utils.gpt_train import train_gpt
speaker_path, config, checkpoint, vocab, exp_path, ref_audio = train_gpt(
    custom_model="", version="v2.0.2", language="amh", num_epochs=1, batch_size=8, grad_acumm=2,
    train_csv={train!r}, eval_csv={evaluate!r}, output_path={output!r}, max_audio_length=255995,
    enable_grad_checkpoint=True, enable_sdpa=True, enable_mixed_precision=False, use_amharic_g2p=True,
    device="cpu", dataloader_num_workers=0, max_text_length=60, dropout=0.0)
print("checkpoint", checkpoint)

heading("TrainingOptimizer")
from utils.training_optimizations import TrainingOptimizer
TrainingOptimizer.print_memory_stats()
heading("instance")
optimizer = TrainingOptimizer(enable_grad_checkpoint=True, enable_sdpa=True, enable_mixed_precision=True)
optimizer = TrainingOptimizer(enable_gradient_checkpointing=True, device="cpu")
optimizer.print_memory_stats()
from utils.errors import UserError
try:
    TrainingOptimizer(enable_gradient_checkpointing=True, enable_grad_checkpoint=False)
except UserError as error:
    print(error)

heading("BatchSizeOptimizer")
import torch
from utils.performance_utils import BatchSizeOptimizer, PerformanceTracker, timed, timing
from utils.performance_utils import log_performance_info, log_system_info, optimize_torch_settings
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def forward(self, x):
        return {{"logits": self.layer(x)}}
model = Model()
def get_sample_batch(batch_size):
    return {{"x": torch.ones(batch_size, 4)}}
search = BatchSizeOptimizer(model=model, sample_batch_fn=get_sample_batch, min_batch_size=1, max_batch_size=2)
try:
    search.find_optimal_batch_size()
except UserError as error:
    print(error)

heading("PerformanceTracker")
tracker = PerformanceTracker(log_interval=10)
for step in range(10):
    tracker.update(0.5, batch_size=4, loss=2.0)
tracker.log_summary()
heading("information")
print("Applied optimizations:", optimize_torch_settings())
log_system_info()
log_performance_info()
with timing("a block"):
    pass
timed(lambda: None)()

heading("optimize_model")
from tests.inference.stock import load_stock
from pathlib import Path
xtts = load_stock(Path({base!r}))
assert optimizer.optimize_model(xtts) is xtts
assert optimizer.optimize_model(xtts.gpt) is xtts.gpt
x = torch.randn(1, 8, xtts.gpt.model_dim)
xtts.gpt.train().gpt(inputs_embeds=x).last_hidden_state.sum().backward()
"""


@pytest.fixture
def hub() -> Iterator[HubServer]:
    """A hub whose v2.0.2 is the tiny base."""
    with HubServer(revisions={"v2.0.2": {**published_tiny(), "LICENSE.txt": b"Coqui Public Model"}}) as server:
        yield server


@pytest.fixture
def amharic(tmp_path: Path) -> Project:
    project = make_project(tmp_path, num_train=4, num_eval=2)
    texts = iter(TEXTS)
    for csv in (project.train_csv, project.eval_csv):
        clips = read_manifest(csv)
        write_manifest(csv, [Clip(audio=clip.audio, text=next(texts), speaker=clip.speaker) for clip in clips])
    return project


@pytest.mark.slow
def test_the_calls_of_published_guides_do_what_they_say(hub, amharic, tmp_path):
    named = {"train": str(amharic.train_csv), "evaluate": str(amharic.eval_csv), "output": str(tmp_path / "output")}
    script = CALLS.format(root=str(ROOT), base=str(tmp_path / "bases" / "v2.0.2"), **named)
    unset = ("HF_HUB_OFFLINE", "XTTS_STUDIO_REPOSITORY", "PYTHONPATH", "HTTP_PROXY", "http_proxy")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HF_ENDPOINT": hub.address(), "COQUI_TOS_AGREED": "1", "XTTS_STUDIO_BASES": str(tmp_path / "bases")}
    done = subprocess.run(
        [sys.executable, "-"], input=script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    seen = dict(re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", done.stdout, re.DOTALL | re.MULTILINE))

    training = seen["train_gpt"]
    assert "num_workers 0: given as dataloader_num_workers" in training
    assert re.search(r"^downloading v2\.0\.2: \d+ of \d+ MB$", training, re.MULTILINE)
    assert "SDPA enabled: flash (CPU) in 4 of 4 blocks" in training
    assert "gradient checkpointing enabled: 4 of 4 blocks recomputed" in training
    assert training.count("SDPA enabled") == 1
    checkpoint = Path(training.rsplit("checkpoint ", 1)[1].strip())
    assert checkpoint.is_file()
    started = json.loads((checkpoint.parents[2] / "events.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (started["clips"], started["eval_clips"], started["dropped"]) == (4, 2, [])

    assert seen["TrainingOptimizer"].startswith("memory on cpu: rss ")
    assert "memory on cpu: rss " in seen["instance"] and "one switch" in seen["instance"]
    assert "Model gives no loss for this batch: its output has the keys logits" in seen["BatchSizeOptimizer"]
    assert "fix:   pass loss_fn=" in seen["BatchSizeOptimizer"]
    interval, summary = seen["PerformanceTracker"].splitlines()
    assert interval == "10 steps, 0.500 s a step, 8.00 clips/s, loss 2.0000" and summary == f"in all: {interval}"
    for line in ("Applied optimizations: {", "torch ", "cpu ", "threads ", "memory on cpu: ", "a block: 0.0"):
        assert line in seen["information"], line
    models = seen["optimize_model"]
    assert "gradient checkpointing enabled: 4 of 4 blocks recomputed" in models
    assert "SDPA" in models and "AttributeError" not in done.stderr


@pytest.mark.parametrize(
    ("script", "flags", "said"),
    [
        ("dataloader", ["--data-dir", "none"], "the folder of --data-dir does not exist\n  where: .*/none\n"),
        ("dataloader", ["--data-dir", "data/train"], "is no prepared dataset\n  where: .*/data/train\n.*dataset$"),
        ("training", ["--project", "a", "--steps", "0"], "--steps is 0\n.*\n.*use 1 or more"),
        ("training", ["--project", "a", "--steps=-3"], "--steps is -3"),
    ],
)
def test_the_scripts_that_guides_name_refuse_at_once(script, flags, said, tmp_path, monkeypatch, capsys):
    (tmp_path / "data" / "train").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    path = str(ROOT / "scripts" / f"benchmark_{script}.py")
    monkeypatch.setattr(sys, "argv", [path, *flags])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(path, run_name="__main__")
    assert re.search(said, capsys.readouterr().err, re.MULTILINE)


@pytest.mark.slow
def test_the_scripts_that_guides_name(tmp_path):
    project = make_project(tmp_path, num_train=4, num_eval=2)
    settings = tmp_path / "train.yaml"
    settings.write_text(
        f"project: {project.name}\noutput: {tmp_path}\nbase: tiny\ndevice: cpu\ntraining:\n  batch_size: 2\n"
        "  gradient_accumulation_steps: 1\n  num_workers: 0\n"
    )
    data = str(project.train_csv.parent)
    calls = {
        "check_mel_lengths.py": ["--csv", str(project.train_csv), "--base", "tiny"],
        "benchmark_training.py": ["--config", str(settings), "--steps", "2"],
        "benchmark_dataloader.py": ["--data-dir", data, "--batch-size", "2", "--num-workers", "1", "--steps", "2"],
    }
    said = {}
    for name, flags in calls.items():
        more = ["--base", "tiny", "--device", "cpu"] if "dataloader" in name else []
        command = [sys.executable, str(ROOT / "scripts" / name), *flags, *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{name}\n{done.stderr[-2_000:]}"
        said[name] = done.stdout
    assert "max_audio_length" in said["check_mel_lengths.py"].replace("-", "_"), said["check_mel_lengths.py"]
    for name in ("benchmark_training.py", "benchmark_dataloader.py"):
        assert re.search(r"2 steps, \d+\.\d+ s a step", said[name]) and "waiting for batches" in said[name]
