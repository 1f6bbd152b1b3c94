"""Stages that go on where they were stopped, and the judge of an unfinished GPT."""

import json
import shutil
from pathlib import Path

import pytest

from recipes.starter import judge, latents, vocoder
from recipes.starter.judge import JudgeConfig
from utils.dataset.manifest import Clip, read_manifest, write_manifest
from utils.errors import UserError
from utils.evaluation.reference import PROGRAM


def test_new_lessons_refine_a_decoder_that_was_done(tmp_path: Path) -> None:
    first = vocoder.plan(tmp_path, "step-00000200").steps
    assert first == vocoder.SETTINGS.steps
    # Stopped before it was done: newer lessons do not make the plan longer.
    assert vocoder.plan(tmp_path, "step-00000400").steps == first
    (tmp_path / "decoder.safetensors").touch()
    assert vocoder.plan(tmp_path, "step-00000400").steps == first
    longer = vocoder.plan(tmp_path, "step-00000600").steps
    assert longer == first + vocoder.REFINING_STEPS
    assert not (tmp_path / "decoder.safetensors").exists()
    # Stopped in the middle of refining.
    assert vocoder.plan(tmp_path, "step-00000600").steps == longer


def test_the_newest_run_with_a_checkpoint_teaches(work: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the GPT has no checkpoint yet"):
        latents.best_checkpoint(tmp_path)
    (tmp_path / "gpt" / "runs").mkdir(parents=True)
    shutil.copytree(work / "gpt" / "runs" / "one", tmp_path / "gpt" / "runs" / "one")
    (tmp_path / "gpt" / "runs" / "two" / "checkpoints").mkdir(parents=True)
    assert latents.best_checkpoint(tmp_path).parts[-3:] == ("one", "checkpoints", "best-00000007")


def test_there_are_no_lessons_before_the_latents_stage(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run the latents stage"):
        latents.load_lessons(tmp_path)


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="espeak-ng is not installed")
def test_the_judge_measures_a_gpt_without_a_decoder(work: Path, tmp_path: Path) -> None:
    clips = read_manifest(work / "corpus" / "metadata_train.csv")[:2]
    texts = ["Go on.", "No."]
    write_manifest(
        work / "corpus" / "metadata_eval.csv",
        [Clip(audio=clip.audio, text=text, speaker=clip.speaker) for clip, text in zip(clips, texts, strict=True)],
    )
    checkpoint = work / "gpt" / "runs" / "one" / "checkpoints" / "best-00000007"
    config = JudgeConfig(work=work, checkpoint=checkpoint, out=tmp_path / "judged")
    judged, models = judge.judge(config)
    assert judged == checkpoint
    assert [model.name for model in models] == ["gpt", "ceiling"]
    found = json.loads((tmp_path / "judged" / "evaluation.json").read_text(encoding="utf-8"))
    assert [len(model["sentences"]) for model in found["models"]] == [2, 2]
    assert all(score.near_miss_rank for model in models for score in model.scores)
