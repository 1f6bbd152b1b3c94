"""A base's DVAE trained on with a project's clips: it hears them better, unused codes stay, and models carry it."""

import json
from pathlib import Path

import pytest
import torch

from tests.sounds import make_project
from utils.cli.language import main
from utils.config import ExportConfig, TrainConfig
from utils.errors import UserError
from utils.inference.export import export_model
from utils.model.base import Base, find_base
from utils.model.dvae import fingerprint
from utils.model.grow import TUNED_DVAE
from utils.model.weights import read_weights
from utils.paths import Project
from utils.training.codes import cache_codes
from utils.training.dvae import hold_unused_codes, read_dvae, restart_averages
from utils.training.run import fine_tune
from utils.training.tune_dvae import tuned_dvae

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


def test_the_error_falls_on_clips_it_was_not_trained_on_and_is_told(made: tuple[Base, str], project: Project) -> None:
    base, said = made
    facts = base.about[TUNED_DVAE]
    assert facts["after"]["error"] < facts["before"]["error"]
    assert 0 < facts["same_codes"] <= 1 and facts["tuned_steps"] == 20
    assert f"{facts['before']['error']:.4f} before, {facts['after']['error']:.4f} after" in said
    assert not list(project.folder.glob(".dvae-*")), "nothing temporary stays"
    assert not any(path.name.startswith(".base") for path in project.folder.iterdir())


def test_codes_of_another_dvae_are_another_cache(made: tuple[Base, str], project: Project, tmp_path: Path) -> None:
    base, tiny = made[0], find_base("tiny")
    assert fingerprint(base.dvae, base.mel_stats()) != fingerprint(tiny.dvae, tiny.mel_stats())
    clip = project.dataset / "wavs" / "clip0.wav"
    cache_codes([clip], tiny, tmp_path)
    cache_codes([clip], base, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_model_trained_with_it_carries_it(made: tuple[Base, str], project: Project) -> None:
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


def test_a_dvae_that_does_not_get_better_is_not_taken(project: Project) -> None:
    with (
        pytest.raises(UserError, match="did not get better"),
        tuned_dvae(find_base("tiny"), project, steps=2, learning_rate=0.9, device=CPU),
    ):
        raise AssertionError("it was taken")
    assert not list(project.folder.glob(".dvae-*"))


def test_without_a_dataset_or_a_decoder_it_is_refused(project: Project, tmp_path: Path) -> None:
    empty = Project(name="empty", output=tmp_path)
    with pytest.raises(UserError), tuned_dvae(find_base("tiny"), empty, device=CPU):
        raise AssertionError("it was taken")
    from utils.model.weights import write_weights

    state = {name: tensor for name, tensor in read_weights(find_base("tiny").dvae).items() if "decoder" not in name}
    write_weights(tmp_path / "half.safetensors", state)
    with pytest.raises(UserError, match="cannot be trained on"):
        read_dvae(tmp_path / "half.safetensors")


def test_codes_that_speech_does_not_use_stay_where_they_are() -> None:
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
