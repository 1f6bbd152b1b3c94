"""Other languages that a run keeps: their clips come as their share of each epoch, read in their own language."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.run_logs import events_of
from tests.sounds import make_project
from tests.training.test_resume import assert_same_end, cut_run
from tests.training.test_run import config_of
from utils.bases.find import find_base
from utils.config import TrainConfig
from utils.errors import UserError
from utils.options import DATASET_RATE, KEPT_SHARE, LORA_RANK
from utils.project.paths import Project
from utils.training.data.base import kept_languages, other_languages
from utils.training.data.load import load_data
from utils.training.plan import plan_run, settle
from utils.training.switches.optim import make_accelerator
from utils.training.train import fine_tune


@pytest.fixture
def spanish(tmp_path: Path) -> Project:
    """Another project in the same output folder, with longer clips of the same speaker's name."""
    project = make_project(tmp_path, name="spanish", num_train=8)
    project.language_file.write_text("es", encoding="utf-8")
    return project


def config(project: Project, spanish: Project, share: str = ":0.25", **settings) -> TrainConfig:
    return config_of(project, keep_languages=f"{spanish.folder}{share}", batch_size=1, **settings)


def test_clips_are_read_in_their_language_and_the_reference_is_of_the_dataset(project, spanish):
    base = find_base("tiny")
    settled = settle(config(project, spanish), project, base)
    data = load_data(settled, project, base, make_accelerator("cpu"), kept=kept_languages(settled, base))
    seconds = data.train.num_samples / DATASET_RATE
    assert data.epoch_s < seconds.sum()
    assert data.epoch_s == pytest.approx(seconds[:6].sum() + 2 * seconds[6:].mean())
    assert (data.num_own, len(data.train), data.drawn) == (6, 14, [(6, 14, 2)]) and len(data.evaluate) == 2
    marks = {clip.tokens[0].item() for clip in data.train[:6]}, {clip.tokens[0].item() for clip in data.train[6:]}
    codes = [base.tokenizer().token_id(f"[{code}]") for code in ("en", "es")]
    assert marks == ({codes[0]}, {codes[1]})
    assert len({clip.speaker for clip in data.train}) == 2, "speakers of one name are not one"
    assert data.longest.audio.is_relative_to(project.folder)
    assert data.train[int(data.train.num_samples.argmax())].audio.is_relative_to(spanish.folder)


def test_a_run_takes_its_share_each_epoch_and_resumes_as_if_it_had_not_been_cut(
    project, spanish, tmp_path, monkeypatch
):
    settings = config(project, spanish, checkpoint_every=1, num_epochs=1)
    folder = cut_run(settings, project, "in mid-epoch", monkeypatch)
    resumed = fine_tune(replace(settings, resume=folder))
    whole = fine_tune(settings)
    assert resumed.num_steps == whole.num_steps == 6 + 2
    assert_same_end(folder, whole.folder)
    (started, *_) = events_of(whole.folder, "started")
    assert started["clips"] == 14 and started["total_steps"] == 8
    # Those of an epoch and of an evaluation.
    assert whole.num_clips == 6 + 2 + 2
    with pytest.raises(UserError, match="keep_languages"):
        fine_tune(replace(settings, keep_languages=f"{spanish.folder}:0.5", resume=folder, num_epochs=2))


def test_what_cannot_be_kept_is_refused_before_anything_begins(project, spanish):
    base = find_base("tiny")
    for share in (":0.6", ":0", ":-1", ":nan", ":10%", ":1e-9", ":"):
        with pytest.raises(
            UserError, match=rf"keep_languages is '.*spanish{share}'; use shares from 0\.001 on, 0\.5 at"
        ):
            fine_tune(config(project, spanish, share))
    for wrong in ("none", "none:0.2", "C:\\x", "C:\\x:0.2"):
        with pytest.raises(UserError, match=f"no prepared dataset\n.*{re.escape(wrong.removesuffix(':0.2'))}\n"):
            fine_tune(config_of(project, keep_languages=wrong))
    assert not project.runs.exists()
    french = make_project(project.output, name="french", num_train=1)
    french.language_file.write_text("fr", encoding="utf-8")
    two = f"{spanish.folder}:0.2, {french.folder}"
    found = kept_languages(config_of(project, keep_languages=two, language="en"), base)
    assert [(one.language, one.share) for one in found] == [("es", 0.2), ("fr", 0.1)]
    colon = spanish.folder.rename(project.output / "es:pañol")
    for share in (KEPT_SHARE, 0.3):
        named = f"{colon}:{share}" if share != KEPT_SHARE else f" {colon} "
        assert [one[2] for one in kept_languages(config_of(project, keep_languages=named), base)] == [share]
    colon.rename(spanish.folder)
    for known in (spanish, project):
        with pytest.raises(UserError, match="has already"):
            kept_languages(config_of(project, keep_languages=f"{two}, {known.folder}"), base)


def test_the_runs_own_language_is_no_other_one(project, spanish, caplog):
    for language, is_other in (("es", False), ("en", True)):
        caplog.clear()
        plan_run(config(project, spanish, language=language))
        assert ("spanish is in es, the language of the run itself" in caplog.text) is not is_other


def test_the_warning_names_those_that_are_not_kept(project, spanish, monkeypatch):
    base = find_base("tiny")
    monkeypatch.setitem(base.about, "speaks", True)
    alone = other_languages(config_of(project, language="en"), base, ())
    assert "16 languages besides en; training all weights on one" in alone and f"--lora-rank {LORA_RANK}" in alone
    assert "--keep-languages FOLDER" in alone
    settings = config(project, spanish, language="en")
    both = other_languages(settings, base, kept_languages(settings, base))
    assert "15 languages besides en and es; training all weights on these" in both
