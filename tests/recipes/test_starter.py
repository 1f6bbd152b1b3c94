"""The starter base as it ships: it speaks so that the words can be told, and learns a new voice from a few clips."""

from pathlib import Path

import pytest

from recipes.starter.judge import reference_voice
from recipes.starter.voices import GPT_VOICES
from utils.cli import demo
from utils.config import ExportConfig, TrainConfig
from utils.dataset.build import prepare
from utils.dataset.settings import PrepareConfig
from utils.evaluation.evaluate import EvaluateConfig, evaluate
from utils.inference.export import export_model
from utils.project.paths import assets_folder, open_project
from utils.training.train import fine_tune

HELD_OUT = Path(__file__).parents[2] / "recipes" / "starter" / "held_out.txt"


@pytest.mark.programs("espeak-ng")
def test_the_starter_says_sentences_that_can_be_told_from_near_misses(tmp_path: Path) -> None:
    """The relaxed form of the table in docs/quality.md: its own voice, 8 held-out sentences."""
    voice = reference_voice(GPT_VOICES[0].name)
    settings = EvaluateConfig(
        model="starter", sentences=HELD_OUT, num_sentences=8, synthesiser_voice=voice.name, out=tmp_path
    )
    (model,) = evaluate(settings).models
    summary = model.summary
    assert summary.retrieval >= 0.9 and summary.near_miss is not None and summary.near_miss >= 0.7
    assert summary.run_on + summary.early_stop <= 1 / 8 and summary.silent == 0
    assert 0.7 < summary.duration_ratio < 1.4


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_short_fine_tuning_brings_the_starter_nearer_to_a_new_voice(tmp_path: Path) -> None:
    voice = assets_folder() / "demo_voice"
    prepare(PrepareConfig(project="new", output=tmp_path, base="starter", input=voice, language="en"))
    # A rate at which nothing is learned: the evaluation loss is the base's own.
    untrained = fine_tune(
        TrainConfig(project="new", output=tmp_path, base="starter", num_epochs=1, learning_rate=1e-12, sample_text="")
    )
    result = fine_tune(TrainConfig(project="new", output=tmp_path, base="starter", num_epochs=24, sample_text=""))
    assert 200 <= result.num_steps <= 1_000
    assert result.best_loss < untrained.best_loss - 0.2
    export_model(ExportConfig(project="new", output=tmp_path))
    found = demo.compare_voices(demo.DemoConfig(project="new", output=tmp_path, base="starter"), voice)
    before, after = (model.summary for model in found.models)
    assert before.cosine is not None and after.cosine is not None
    assert 1 - after.cosine < 0.75 * (1 - before.cosine)
    assert after.spectrum < 0.9 * before.spectrum and after.pitch < before.pitch
    assert open_project("new", tmp_path).runs.is_dir()
