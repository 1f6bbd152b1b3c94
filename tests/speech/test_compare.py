"""Comparing: the same lines from each model, blind trials that stay the same, votes that are kept and counted."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.speech.workers import ended, submit, until
from utils.errors import UserError
from utils.options import SpeechSettings
from utils.runs.layout import VOICE_FILE
from utils.speech import compare as module
from utils.speech.compare import Tally, compare, comparisons, next_trial, takes_of, tallies, trials, vote
from utils.speech.models import SpeakingModel
from utils.speech.pack import pack_ready, pack_take


def test_all_speak_with_the_recording_of_the_voice_not_of_the_base(queue, project, monkeypatch, tmp_path):
    (of_base := tmp_path / "base.wav").write_bytes(b"of the base")
    project.ready.mkdir()
    save_file({"reference": np.frombuffer(b"of the voice", dtype=np.uint8)}, project.ready / VOICE_FILE)
    base = SpeakingModel(id="base/one", kind="base", source="one", reference=of_base)
    monkeypatch.setattr("utils.speech.models.named_bases", lambda: [base])
    assert set(spoken_with(queue, project, "base/one", "voice")) == {("reference.wav", b"of the voice")}
    (project.ready / VOICE_FILE).write_bytes(b"cut")
    with pytest.raises(UserError, match="recording of the LoRA voice cannot be read"):
        spoken_with(queue, project, "base/one", "voice")


def spoken_with(queue, project, *models):
    identity = compare(queue, project, models, ["text"], settings=SpeechSettings(seed=3))
    takes = takes_of(project, identity)
    return [(take.reference_name, (take.folder / take.reference).read_bytes()) for take in takes]


@pytest.fixture
def three_models(monkeypatch):
    """Three ids for one model: which weights speak is the worker's business."""

    def find(project, name):
        if name not in ("base/one", "base/two", "base/three"):
            raise UserError(what=f"no model {name}")
        return SpeakingModel(id=name, kind="base", source="tiny")

    for place in ("compare", "take_queue"):
        monkeypatch.setattr(f"utils.speech.{place}.find_model", find)


def make(queue, project, *models, texts=("one", "two")):
    settings = SpeechSettings(seed=3)
    identity = compare(queue, project, models, texts, settings=settings)
    for take in takes_of(project, identity):
        ended(take)
    return identity


def test_each_model_speaks_the_same_with_the_same_settings(queue, project, three_models):
    identity = make(queue, project, "base/one", "base/two", "base/three")
    takes = takes_of(project, identity)
    assert [take.model for take in takes] == ["base/one", "base/two", "base/three"]
    assert {tuple(line.text for line in take.lines) for take in takes} == {("one", "two")}
    assert {take.settings for take in takes} == {SpeechSettings(seed=3)}
    assert comparisons(project) == [identity]


def test_trials_are_every_pair_of_every_line_and_the_order_is_kept(queue, project, three_models):
    identity = make(queue, project, "base/one", "base/two", "base/three", texts=[f"line {n}" for n in range(8)])
    found = trials(project, identity)
    assert len(found) == 8 * 3 and len({trial.id for trial in found}) == 24
    assert trials(project, identity) == found
    first = takes_of(project, identity)[0].id
    heard_first = [trial.a == first for trial in found if first in (trial.a, trial.b)]
    assert 0 < sum(heard_first) < len(heard_first)


def test_votes_are_kept_and_what_was_judged_is_not_asked_again(queue, project, three_models):
    # U+0085 ends a line in Unicode, not in JSON.
    identity = make(queue, project, "base/one", "base/two", texts=["x\x85x", "y\x85y", "z\x85z"])
    better = takes_of(project, identity)[1]
    for _ in range(2):
        trial = next_trial(project, identity)
        cast = vote(project, trial.id, "a" if trial.a == better.id else "b")
        assert {cast["a"], cast["b"]} == {"base/one (step-00000007)", "base/two (step-00000007)"}
    vote(project, next_trial(project, identity).id, "same")
    assert next_trial(project, identity) is None
    (tally,) = tallies(project)
    assert (tally.wins, tally.same) == ((0, 2), 1) and "two" in tally.models[1]


def test_a_torn_or_foreign_vote_is_passed_over(queue, project, three_models):
    identity = make(queue, project, "base/one", "base/two")
    vote(project, next_trial(project, identity).id, "a")
    with (project.folder / "comparisons" / f"{identity}.votes.jsonl").open("a") as file:
        file.write('{"a": 1}\n[]\n{"time": 17')
    assert sum(tallies(project)[0].wins) == 1


def test_what_cannot_be_compared_or_judged_is_refused(queue, project, three_models, monkeypatch):
    for models in ([], ["base/one"], ["base/one", "base/one"], [f"base/{n}" for n in range(7)]):
        with pytest.raises(UserError, match="models are selected"):
            compare(queue, project, models, ["text"], settings=SpeechSettings())
    with pytest.raises(UserError, match="no model base/gone"):
        compare(queue, project, ["base/one", "base/gone"], ["text"], settings=SpeechSettings())
    assert comparisons(project) == [] and not (project.folder / "takes").exists()
    identity = make(queue, project, "base/one", "base/two")
    for trial, choice in (
        (f"{identity}/9/x/y", "a"),
        (next_trial(project, identity).id, "c"),
        ("../x", "a"),
        ("", "a"),
    ):
        with pytest.raises(UserError):
            vote(project, trial, choice)
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    with pytest.raises(UserError, match="already queued"):
        make(queue, project, "base/one", "base/two")


def test_the_chance_of_a_preference_is_that_of_the_sign_test():
    """Source: tables of the binomial distribution, p = 1/2."""
    assert Tally(models=("a", "b"), wins=(5, 5), same=3).chance == 1.0
    assert Tally(models=("a", "b"), wins=(0, 0), same=3).chance == 1.0
    assert Tally(models=("a", "b"), wins=(9, 1), same=0).chance == pytest.approx(0.021484, abs=1e-6)
    assert Tally(models=("a", "b"), wins=(0, 6), same=0).chance == pytest.approx(0.03125)


def test_a_take_is_packed_with_its_texts(queue, project):
    import zipfile

    take = ended(submit(queue, project, "one | two", "unreadable", "three"))
    with zipfile.ZipFile(pack_take(take)) as packed:
        assert sorted(packed.namelist()) == ["0001.wav", "0003.wav", "lines.csv", "take.json"]
        table = packed.read("lines.csv").decode().splitlines()
    assert table[1] == '0001.wav|"one | two"|finished|' and table[2] == "|unreadable|failed|cannot read this"
    slow = submit(queue, project, "slow")
    with pytest.raises(UserError, match="no line"):
        pack_take(until(slow, lambda now: bool(now.sentences)))
    queue.stop(slow.folder)


def test_an_exported_model_is_packed_once(project):
    with pytest.raises(UserError, match="no exported model"):
        pack_ready(project)
    project.ready.mkdir()
    voice = project.ready / VOICE_FILE
    voice.write_bytes(b"additions")
    assert pack_ready(project) == voice
    (project.ready / "model.pth").write_bytes(b"weights")
    (project.ready / "config.json").write_text("{}")
    first = pack_ready(project)
    assert first != voice
    stamp = first.stat().st_mtime_ns
    assert pack_ready(project) == first and first.stat().st_mtime_ns == stamp
    assert first.name == "voice-ready.zip"
