"""A base's DVAE trained on with a project's clips: it hears them better, unused codes stay, and models carry it."""

import json
import shutil
from contextlib import AbstractContextManager
from functools import partial

import pytest
import torch

from tests.clip_tables import cache_codes
from tests.sounds import make_project
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.bases.grow import TUNED_DVAE
from utils.cli.language import main
from utils.codec_training import tune_dvae as tune_module
from utils.codec_training.tune_dvae import (
    MelCorpus,
    TunedDvae,
    evaluate_dvae,
    hold_unused_codes,
    read_dvae,
    restart_averages,
    tuned_dvae,
)
from utils.config import ExportConfig, TrainConfig
from utils.errors import UserError
from utils.inference.export import export_model
from utils.model.dvae import fingerprint
from utils.model.weights import read_weights
from utils.project.paths import Project
from utils.training.train import fine_tune

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("output"))


@pytest.fixture(scope="module")
def made(project: Project) -> tuple[Base, str]:
    """The base that the command made, and what it said."""
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main(
            [
                *("--project", project.name, "--output", str(project.output), "--language", "en", "--base", "tiny"),
                *("--train-dvae", "--dvae-steps", "20", "--device", "cpu"),
            ]
        )
    return Base(project.folder / "base-en-dvae"), said.getvalue()


@pytest.mark.slow
def test_the_error_falls_on_clips_it_was_not_trained_on_and_is_told(made, project):
    base, said = made
    facts = base.about[TUNED_DVAE]
    assert facts["after"]["error"] < facts["before"]["error"]
    assert base.name == f"{find_base('tiny').name}-dvae", "no language was added"
    assert 0 < facts["same_codes"] <= 1 and facts["tuned_steps"] == 20
    assert f"{facts['before']['error']:.4f} before, {facts['after']['error']:.4f} after" in said
    assert not list(project.folder.glob(".dvae-*")), "nothing temporary stays"
    assert not any(path.name.startswith(".base") for path in project.folder.iterdir())


@pytest.mark.slow
def test_codes_of_another_dvae_are_another_cache(made, project, tmp_path):
    base, tiny = made[0], find_base("tiny")
    assert fingerprint(base.dvae, base.mel_stats()) != fingerprint(tiny.dvae, tiny.mel_stats())
    clip = project.dataset / "wavs" / "clip0.wav"
    for one in (tiny, base):
        cache_codes([clip], one, tmp_path / "codes")
    assert len([path for path in (tmp_path / "codes").iterdir() if path.is_dir()]) == 2


def test_a_model_trained_with_it_carries_it(made, project):
    base = made[0]
    config = TrainConfig(
        project=project.name, output=project.output, base=str(base.folder), num_epochs=1, sample_text="", device="cpu"
    )
    fine_tune(config)
    ready = Base(export_model(ExportConfig(project=project.name, output=project.output)))
    assert ready.dvae.parent == ready.folder
    assert ready.dvae.read_bytes() == base.dvae.read_bytes()
    assert fingerprint(ready.dvae, ready.mel_stats()) == fingerprint(base.dvae, base.mel_stats())
    assert json.loads((ready.folder / "about.json").read_text(encoding="utf-8"))[TUNED_DVAE] == base.about[TUNED_DVAE]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the DVAE's training every five steps."""
    monkeypatch.setattr(tune_module, "CHECKPOINT_EVERY", 5)


@pytest.mark.slow
def test_a_training_of_the_dvae_that_is_cut_goes_on_where_it_was(made, project, tmp_path, often):
    shutil.copytree(project.dataset, tmp_path / "p" / "dataset")
    cut, steps = Project(name="p", output=tmp_path), list[int]()

    def reported(phase: str, done: int, total: int | None, *, most: int) -> None:
        if phase == "training the DVAE":
            steps.append(done)
            if done == most:
                raise KeyboardInterrupt

    def tune(most: int) -> AbstractContextManager[TunedDvae]:
        return tuned_dvae(find_base("tiny"), cut, steps=20, device=CPU, progress=partial(reported, most=most))

    with pytest.raises(KeyboardInterrupt), tune(13):
        raise AssertionError("it was taken")
    with pytest.raises(KeyboardInterrupt), tune(99) as tuned:
        assert steps == [*range(1, 14), *range(11, 21)]
        weights = tuned.file.read_bytes()
        raise KeyboardInterrupt  # while the base is made
    steps.clear()
    with tune(99) as tuned:
        assert not steps, "what was trained is not trained again"
        assert tuned.file.read_bytes() == weights == made[0].dvae.read_bytes(), "as if it had not been cut"
    assert not list(cut.folder.glob(".dvae-*"))


def test_a_dvae_that_does_not_get_better_is_not_taken(project):
    with (
        pytest.raises(UserError, match="did not get better"),
        tuned_dvae(find_base("tiny"), project, steps=2, learning_rate=0.9, device=CPU),
    ):
        raise AssertionError("it was taken")
    assert not list(project.folder.glob(".dvae-*"))


def test_without_a_dataset_or_a_decoder_it_is_refused(project, tmp_path):
    empty = Project(name="empty", output=tmp_path)
    with pytest.raises(UserError), tuned_dvae(find_base("tiny"), empty, device=CPU):
        raise AssertionError("it was taken")
    with pytest.raises(UserError, match="is empty"):
        MelCorpus([], tmp_path / "mels", lambda *_: None)
    from utils.model.weights import write_weights

    state = {name: tensor for name, tensor in read_weights(find_base("tiny").dvae).items() if "decoder" not in name}
    write_weights(tmp_path / "half.safetensors", state)
    with pytest.raises(UserError, match="cannot be trained on"):
        read_dvae(tmp_path / "half.safetensors")


def test_quality_of_a_known_case(project, tmp_path):
    """A DVAE that always answers with one code explains nothing more than a constant can."""
    dvae, clips = read_dvae(find_base("tiny").dvae), sorted(project.dataset.glob("wavs/*.wav"))[:3]
    mels, scale = MelCorpus(clips, tmp_path, lambda *_: None), torch.full((80, 1), 2.0)
    with torch.no_grad():
        for parameter in dvae.decoder.parameters():
            parameter.zero_()
        dvae.codebook.embed.fill_(1e3)
        dvae.codebook.embed[:, 7] = 0.0
        quality = evaluate_dvae(dvae, mels, scale)
    assert quality.codes_used == 1
    assert quality.perplexity == pytest.approx(1.0)
    assert quality.error == pytest.approx(float((mels.frames.astype("float32") / 2).__pow__(2).mean()), rel=0.03)
    assert quality.explained_variance < 0
    assert [clip.shape[2] % 4 for clip in mels.clips()] == [0, 0, 0]


def test_codes_that_speech_does_not_use_stay_where_they_are():
    dvae = read_dvae(find_base("tiny").dvae)
    restart_averages(dvae)
    book = dvae.codebook
    held, chosen = book.embed.clone(), set()
    book.train()
    for _ in range(400):
        before = book.embed.clone()
        codes = book((held[:, :10].T + 0.05)[None])[1]
        chosen |= set(codes.flatten().tolist())
        hold_unused_codes(dvae, before)
    moved = (book.embed - held).abs().max(0).values
    unused = sorted(set(range(dvae.num_tokens)) - chosen)
    assert len(unused) > 900
    assert moved[unused].max() < 1e-3, "a moving average of nothing drifts to zero"
    assert moved.max() > 1e-2, "codes in use follow the speech"
