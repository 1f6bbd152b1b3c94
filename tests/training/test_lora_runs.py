"""Runs with LoRA: rows that a base was grown by learn and come back, the seed chooses the start, moments survive."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.run_logs import events_of
from tests.saving import same, save_last
from tests.training.switches.test_training_optimizer import reported
from tests.training.test_run import config_of
from utils.bases.base import ADDED_ROWS, Base
from utils.bases.extend import add_language
from utils.bases.find import find_base
from utils.bases.grow import EMBEDDING, HEAD, HEAD_BIAS
from utils.bases.loading import load_gpt
from utils.config import ExportConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.errors import UserError
from utils.inference.export import export_model, export_voice
from utils.model.gpt import ForwardOptions
from utils.model.lora import adapter_state, add_lora, halve_frozen, load_adapter, merged_state
from utils.model.packing import pack
from utils.model.weights import read_weights, write_weights
from utils.model.xtts import build_gpt
from utils.project.paths import Project
from utils.runs.checkpoints import Checkpoints
from utils.runs.layout import ADAPTER_FILE, MODEL_FILE, OPTIMIZER_FILE
from utils.training.checkpointing import load_optimizer, restore_model
from utils.training.switches.optim import make_optimizer, optimizer_tensors
from utils.training.train import TrainResult, fine_tune
from utils.training_optimizations import TrainingOptimizer

GEORGIAN = {"weight_decay": 0.5, "language": "ka"}
TEXT = "გამარჯობა მსოფლიო"
NAMES = [name.removeprefix("gpt.") for name in (EMBEDDING, HEAD, HEAD_BIAS)]


@pytest.fixture(scope="session")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """The tiny base with Georgian."""
    folder = tmp_path_factory.mktemp("grown")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([TEXT, "თბილისი საქართველოს დედაქალაქია"] * 20), encoding="utf-8")
    base = add_language(find_base("tiny"), "ka", folder, corpus=corpus, target=30).base
    assert base.added_rows()
    return base


@pytest.fixture
def georgian(project: Project) -> Project:
    for csv in (project.train_csv, project.eval_csv):
        write_manifest(csv, [Clip(audio=clip.audio, text=TEXT, speaker=clip.speaker) for clip in read_manifest(csv)])
    return project


def run(project: Project, **settings) -> TrainResult:
    values = {"num_epochs": 1, "device": "cpu", "sdpa": True, "dropout": 0.0, "lora_rank": 2, "learning_rate": 1e-2}
    return fine_tune(config_of(project, **(values | settings)))


def last(result: TrainResult) -> Path:
    found = Checkpoints(result.folder).last()
    assert found is not None
    return found


@pytest.mark.slow
def test_only_added_rows_learn_they_come_back_on_resume_and_are_exported(georgian, grown):
    rows = list(grown.added_rows() or ())
    old = [row for row in range(grown.gpt_shape().text_rows) if row not in set(rows)]
    whole = run(georgian, num_epochs=2, base=str(grown.folder), **GEORGIAN)
    assert f"{len(rows)} added text rows" in reported(whole)["lora"]["observed"]
    before, after = load_gpt(grown).state_dict(), read_weights(last(whole) / MODEL_FILE)
    for name in NAMES:
        assert torch.equal(before[name][old], after[name][old]), "no old row moves, by weight decay neither"
        assert (before[name][rows] != after[name][rows]).any()
    assert (before[NAMES[1]][rows] != after[NAMES[1]][rows]).all(), "the head learns of each that it was not spoken"

    moments = read_weights(last(whole) / OPTIMIZER_FILE)
    sizes = [tensor.numel() for name, tensor in moments.items() if "added_" in name and name.endswith("/exp_avg")]
    width = grown.gpt_shape().width
    assert sorted(sizes) == sorted([len(rows) * width, len(rows) * width, len(rows)]), "no moments for old rows"

    cut = run(georgian, num_epochs=2, base=str(grown.folder), max_hours=1e-9, **GEORGIAN)
    assert (cut.ended, cut.num_steps, cut.stop_signal) == ("hours", 1, None)
    assert events_of(cut.folder)[-1]["kind"] == "stopped"
    resumed = run(georgian, base=str(grown.folder), resume=cut.folder, num_epochs=2, max_hours=9)
    for file in (MODEL_FILE, ADAPTER_FILE, OPTIMIZER_FILE):
        mine, theirs = read_weights(last(resumed) / file), read_weights(last(whole) / file)
        assert same(mine, theirs), file

    chosen = ExportConfig(project=georgian.name, output=georgian.output, run=whole.folder.name)
    with pytest.raises(UserError, match=f"also learned {len(rows)} text rows"):
        export_voice(chosen)
    ready = Base(export_model(chosen))
    exported = ready.state()
    best = read_weights(whole.checkpoint)
    assert all(torch.equal(exported[f"gpt.{name}"], best[name]) for name in NAMES)
    assert ready.added_rows() == grown.added_rows(), "who trains on may want them to learn further"


def test_the_merged_model_computes_what_the_model_in_training_did(georgian, grown):
    result = run(georgian, num_epochs=1, base=str(grown.folder), **GEORGIAN)
    trained = load_gpt(grown, ForwardOptions(sdpa=True, dropout=0.0))
    TrainingOptimizer(lora_rank=2, device="cpu").optimize_model(trained)
    load_adapter(trained, read_weights(last(result) / ADAPTER_FILE))
    merged = build_gpt(trained.shape, read_weights(last(result) / MODEL_FILE), where="")
    rows = grown.added_rows()
    assert rows
    batch, mels = pack([torch.tensor([*rows, 5, 6])], [torch.arange(30)], trained.shape), torch.ones(1, 80, 20)
    with torch.no_grad():
        ours, theirs, plain = (torch.stack(model.eval()(batch, mels)) for model in (trained, merged, load_gpt(grown)))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
    assert (ours - plain).abs().max() > 0.1


def test_rows_that_nobody_knows_are_reported(georgian, grown, tmp_path, caplog):
    """Of bases of earlier versions the rows follow from the published base; of others they cannot be known."""
    about = {key: value for key, value in grown.about.items() if key != ADDED_ROWS}
    former = Base(tmp_path / "former")
    former.folder.mkdir()
    for file in grown.folder.iterdir():
        (former.folder / file.name).write_bytes(file.read_bytes())
    (former.folder / "about.json").write_text(json.dumps(about))
    assert former.added_rows() == grown.added_rows()
    (former.folder / "about.json").write_text(json.dumps({**about, ADDED_ROWS: [[1, 10**9]]}))
    with pytest.raises(UserError, match="are not rows of this vocabulary"):
        Base(former.folder).added_rows()
    (former.folder / "dvae.safetensors").write_bytes(grown.dvae.read_bytes())
    (former.folder / "about.json").write_text(json.dumps({"name": "foreign", "speaks": False}))
    assert Base(former.folder).added_rows() is None
    assert (
        "its about.json does not name them"
        in reported(run(georgian, base=str(former.folder), **GEORGIAN))["lora"]["observed"]
    )


@pytest.mark.slow
def test_the_seed_chooses_where_lora_begins(project):
    def begin(seed: int) -> dict[str, torch.Tensor]:
        # The steps are so small that the first values are still there.
        result = run(project, learning_rate=1e-12, seed=seed)
        return {name: t for name, t in read_weights(last(result) / ADAPTER_FILE).items() if ".lora_A." in name}

    first, again, other = begin(3), begin(3), begin(4)
    assert first and all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.allclose(first[name], other[name]) for name in first)


def test_moments_come_back_exactly_and_those_in_another_form_start_from_zero(tmp_path):
    gpt = add_lora(load_gpt(find_base("tiny")), 2)
    optimizer = moved(gpt, steps=2)
    folder = save_last(Checkpoints(tmp_path), 2, gpt, optimizer, {})
    other = add_lora(load_gpt(find_base("tiny")), 2, seed=9)
    restore_model(folder, other)
    again = make_optimizer(other, learning_rate=1e-2, weight_decay=0.1)
    assert load_optimizer(folder, other, again) == []
    moved(gpt, steps=1, optimizer=optimizer)
    moved(other, steps=1, optimizer=again)
    ours, theirs = optimizer_tensors(gpt, optimizer), optimizer_tensors(other, again)
    assert same(ours, theirs)
    ours, theirs = adapter_state(gpt), adapter_state(other)
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)

    # As an earlier version's 8-bit AdamW kept them.
    moments = read_weights(folder / OPTIMIZER_FILE)
    write_weights(folder / OPTIMIZER_FILE, {f"{key}_codes": value for key, value in moments.items()})
    (note,) = load_optimizer(folder, other, again)
    assert "start from zero" in note and not again.state


def test_frozen_weights_in_half_precision_compute_as_autocast_does_and_are_saved_whole():
    gpt, base = (add_lora(load_gpt(find_base("tiny")), 2) for _ in range(2))
    halve_frozen(gpt, torch.bfloat16)
    layer = gpt.gpt.h[0].mlp.c_fc
    assert layer.base_layer.weight.dtype == torch.bfloat16
    x = torch.randn(3, layer.base_layer.weight.shape[0])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(x), base.gpt.h[0].mlp.c_fc(x))
    saved, whole = merged_state(gpt), merged_state(base)
    assert same(saved, whole)


def moved(gpt: nn.Module, *, steps: int, optimizer: torch.optim.Optimizer | None = None) -> torch.optim.Optimizer:
    """The optimizer after this many steps with gradients that follow from the weights."""
    optimizer = optimizer or make_optimizer(gpt, learning_rate=1e-2, weight_decay=0.1)
    for _ in range(steps):
        for parameter in (p for p in gpt.parameters() if p.requires_grad):
            parameter.grad = (parameter.detach() + 0.1).sin()
        optimizer.step()
    return optimizer
