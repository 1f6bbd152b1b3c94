"""A trunk learns a voice, stays the base's own where it got no better, and is asked for only where there is one."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.config import CODE_SAMPLES, DATASET_RATE, TrainConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.decoder_training import tune_trunk as module
from utils.decoder_training.tune_trunk import tune_trunk
from utils.errors import UserError
from utils.inference.engine import Synthesizer
from utils.inference.own_decoder import own_decoder, trunk_steps
from utils.model.weights import State, part
from utils.model.xtts import DECODER_PREFIX, GPT_PREFIX
from utils.project.paths import Project, assets_folder
from utils.training.run_folder import REFERENCE_FILE

SHORT = replace(module.SETTINGS, trunk_batch_size=8, warmup_steps=2)


@pytest.fixture(scope="module")
def starter() -> Base:
    return find_base("starter")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Eight clips of the demo voice as a dataset, and one as the run's reference."""
    project = Project(name="own", output=tmp_path)
    project.dataset.mkdir(parents=True)
    rows = (assets_folder() / "demo_voice" / "metadata.csv").read_text(encoding="utf-8").splitlines()
    pairs = [row.split("|")[:2] for row in rows if ".flac|" in row][:8]
    clips = [Clip(audio=assets_folder() / "demo_voice" / name, text=text, speaker="demo") for name, text in pairs]
    write_manifest(project.train_csv, clips[:6])
    write_manifest(project.eval_csv, clips[6:])
    return project


def _ignored(phase: str, done: int, total: int | None) -> None:
    """Nobody asked."""


def _export(project: Project, base: Base, run: Path, steps: int, *, must: bool = False) -> tuple[State, dict]:
    reference = read_manifest(project.train_csv)[0].audio if project.train_csv.is_file() else None
    if reference is not None:
        (run / REFERENCE_FILE).write_bytes(reference.read_bytes())
    settings = TrainConfig(project=project.name, output=project.output, language="en")
    gpt, decoder = part(base.state(), GPT_PREFIX), part(base.state(), DECODER_PREFIX)
    return own_decoder(run, base, gpt, decoder, project, settings, steps=steps, must=must, progress=_ignored)


def test_a_few_steps_bring_the_outline_nearer_and_touch_nothing_else(starter, project, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "SETTINGS", SHORT)
    weights, about = _export(project, starter, tmp_path, steps=12)
    facts, own = about["decoder"], part(starter.state(), DECODER_PREFIX)
    assert facts["outline_after"] < 0.9 * facts["outline_before"] and facts["kept"] == "the tuned one"
    changed = {name for name, tensor in weights.items() if not torch.equal(tensor, own[name])}
    assert changed and all(name.startswith("waveform_decoder.trunk.") for name in changed)
    assert {tensor.dtype for tensor in weights.values()} == {tensor.dtype for tensor in own.values()}


def test_a_trunk_that_got_worse_is_not_kept(starter, project, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "SETTINGS", replace(SHORT, learning_rate=10.0))
    weights, about = _export(project, starter, tmp_path, steps=2)
    assert "no better" in about["decoder"]["kept"]
    own = part(starter.state(), DECODER_PREFIX)
    assert all(torch.equal(tensor, own[name]) for name, tensor in weights.items())


def test_without_its_clips_the_decoder_stays_as_it_is_and_says_so(starter, project, tmp_path) -> None:
    project.eval_csv.unlink()
    weights, about = _export(project, starter, tmp_path, steps=2)
    assert about == {"decoder": {"steps": 0, "kept": "the base's own: the dataset is gone"}}
    assert weights.keys() == part(starter.state(), DECODER_PREFIX).keys()
    with pytest.raises(UserError, match="the dataset is gone"):
        _export(project, starter, tmp_path, steps=2, must=True)


def test_several_speakers_are_not_learned_as_one(starter, project, tmp_path) -> None:
    clips = read_manifest(project.train_csv)
    write_manifest(project.train_csv, [*clips, replace(clips[0], speaker="another")])
    _, about = _export(project, starter, tmp_path, steps=2)
    assert about["decoder"]["kept"] == "the base's own: the clips are of 2 speakers"


def test_clips_that_the_model_cannot_read_are_left_out(starter, project, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "SETTINGS", SHORT)
    synthesizer, clips = Synthesizer(starter), read_manifest(project.train_csv)
    voice = synthesizer.voice(clips[0].audio)
    endless = replace(clips[0], text="word " * 400)
    gone, longest = replace(clips[0], audio=tmp_path / "gone.wav"), replace(clips[0], audio=tmp_path / "longest.wav")
    # As long as the model's position table, which also holds start and stop.
    samples = synthesizer.gpt.shape.max_audio_tokens * CODE_SAMPLES
    write_wav(longest.audio, 0.01 * torch.randn(1, samples), DATASET_RATE)
    unusable = [endless, gone, longest]
    arguments = {"language": "en", "steps": 1, "folder": tmp_path / "lessons"}
    for evaluated in (unusable, []):
        with pytest.raises(UserError, match="no clip"):
            tune_trunk(starter, synthesizer.gpt, voice, clips[:1], evaluated, **arguments)
    assert tune_trunk(starter, synthesizer.gpt, voice, [*unusable, *clips], clips[:1], **arguments).steps == 1
    assert not (tmp_path / "lessons").exists()


def test_steps_are_asked_for_where_there_is_a_trunk(starter) -> None:
    tiny = find_base("tiny")
    assert (trunk_steps(tiny, None), trunk_steps(tiny, 0), trunk_steps(starter, 7)) == (0, 0, 7)
    assert trunk_steps(starter, None) == starter.defaults.decoder_steps > 0
    with pytest.raises(UserError, match="no acoustic trunk"):
        trunk_steps(tiny, 5)
    with pytest.raises(UserError, match="decoder_steps is -1"):
        trunk_steps(starter, -1)
