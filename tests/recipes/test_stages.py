"""Stages that go on where they were stopped, and the scores of an unfinished GPT."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from recipes.starter import judge, latents, vocoder
from recipes.starter.judge import JudgeConfig
from recipes.starter.speaker_encoder import new_speaker_encoder
from recipes.starter.voices import GPT_VOICES
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.errors import UserError
from utils.model.weights import read_weights, write_weights
from utils.options import CODE_SAMPLES, DATASET_RATE, OUTPUT_RATE


def test_new_examples_refine_a_decoder_that_was_done(tmp_path: Path) -> None:
    first = vocoder.plan(tmp_path, "step-00000200").steps
    assert first == vocoder.SETTINGS.steps
    # Stopped before it was done: newer examples do not make the plan longer.
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


def test_there_are_no_examples_before_the_latents_stage(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run the latents stage"):
        latents.load_training_examples(tmp_path)


@pytest.mark.programs("espeak-ng")
def test_examples_of_an_unfinished_gpt_teach_the_decoder_and_new_ones_take_their_place(
    work: Path, tmp_path: Path, monkeypatch
) -> None:
    made = tmp_path / "work"
    shutil.copytree(work, made, ignore=shutil.ignore_patterns("decoder", "corpus"))
    (made / "speaker").mkdir()
    write_weights(made / "speaker" / "speaker.safetensors", new_speaker_encoder(latents.SPEAKER_SHAPE).state_dict())
    monkeypatch.setattr(latents, "everyone", lambda: GPT_VOICES[:2])
    monkeypatch.setattr(latents, "GPT_VOICE_CLIPS", 3)
    monkeypatch.setattr(latents, "NUM_SYNTHETIC_SPEAKERS", 1)
    monkeypatch.setattr(latents, "SYNTHETIC_VOICE_CLIPS", 3)
    sizes = {"batch_size": 2, "trunk_batch_size": 2}
    settings = dataclasses.replace(vocoder.SETTINGS, steps=2, trunk_steps=1, adversarial_from=1, **sizes)
    monkeypatch.setattr(vocoder, "SETTINGS", settings)
    monkeypatch.setattr(vocoder, "REFINING_STEPS", 1)
    latents.run(made)
    examples = latents.load_training_examples(made)
    assert len(examples) == 9
    for clip in examples:
        codes = len(np.load(clip.latents)) - 1
        assert codes == -(-soundfile.info(clip.wav).frames * DATASET_RATE // (OUTPUT_RATE * CODE_SAMPLES))
    vocoder.run(made)
    first = read_weights(made / "decoder" / "decoder.safetensors")
    # The GPT goes on: a better checkpoint, new examples, and a decoder refined from where it was.
    checkpoints = made / "gpt" / "runs" / "one" / "checkpoints"
    (checkpoints / "best-00000007").rename(checkpoints / "best-00000009")
    latents.run(made)
    assert [path.name for path in (made / "latents").iterdir()] == ["best-00000009"]
    vocoder.run(made)
    assert json.loads((made / "decoder" / "plan.json").read_text(encoding="utf-8"))["steps"] == 3
    second = read_weights(made / "decoder" / "decoder.safetensors")
    changed = [name for name, tensor in second.items() if not torch.equal(tensor, first[name])]
    assert changed and all(name.startswith("waveform_decoder.") for name in changed)
    # The last bias is balanced after training, on what was learned until then.
    learned = [name for name in changed if not name.endswith("trunk.leave.bias")]
    distance = max(float((second[name] - first[name]).abs().max()) for name in learned)
    assert distance < 2 * settings.learning_rate


@pytest.mark.programs("espeak-ng")
def test_a_gpt_is_measured_without_a_decoder(work: Path, tmp_path: Path) -> None:
    clips = read_manifest(work / "corpus" / "metadata_train.csv")[:2]
    texts = ["Go on.", "No."]
    write_manifest(
        work / "corpus" / "metadata_eval.csv",
        [Clip(audio=clip.audio, text=text, speaker=clip.speaker) for clip, text in zip(clips, texts, strict=True)],
    )
    checkpoint = work / "gpt" / "runs" / "one" / "checkpoints" / "best-00000007"
    config = JudgeConfig(work=work, checkpoint=checkpoint, out=tmp_path / "judged")
    scored, models = judge.score_checkpoint(config)
    assert scored == checkpoint
    assert [model.name for model in models] == ["gpt", "ceiling"]
    found = json.loads((tmp_path / "judged" / "evaluation.json").read_text(encoding="utf-8"))
    assert [len(model["sentences"]) for model in found["models"]] == [2, 2]
    assert all(score.near_miss_rank for model in models for score in model.scores)
