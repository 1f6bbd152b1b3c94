"""Tab 3 without a page: what each click asks of the queue, and what it shows."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.speech.workers import ended, until, worker
from utils import jobs
from utils.config import SpeechSettings, TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.runs.layout import VOICE_FILE
from utils.speech.take_queue import GenerationQueue
from utils.speech.takes import Take, find_take, list_takes
from webui import text
from webui.change import TOAST
from webui.fields import fields_of
from webui.handlers import compare, inference, training
from webui.handlers.speech_form import read_settings
from webui.studio import Studio
from webui.text.catalog import speaking


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(name="voice", output=tmp_path)
    (project.dataset / "wavs").mkdir(parents=True)
    (project.dataset / "wavs" / "a.wav").write_bytes(b"sound")
    (tmp_path / "secret.wav").write_bytes(b"secret")
    return project


@pytest.fixture
def studio(project: Project) -> Iterator[Studio]:
    studio = Studio(output=project.output)
    studio.generations = GenerationQueue(project.output, device="cpu", worker=worker(project.output))
    yield studio
    studio.generations.release("the test is over")


def form(**changes: object) -> dict[str, object]:
    """The values of an untouched form but for `changes`."""
    known = fields_of(SpeechSettings)
    plain: dict[str, object] = {f"inference.set_{name}": field.default for name, field in known.items()}
    plain |= {
        "project.project": "voice",
        "inference.model": "base/tiny",
        "inference.offered": "",
        "inference.listed": "",
        "inference.text": "One.",
        "inference.text_file": None,
        "inference.by_lines": False,
        "inference.voice": "own",
        "inference.recording": None,
        "inference.clip": None,
        "inference.speaker": None,
        "inference.random_seed": False,
        "inference.current": "",
        "inference.take": None,
        "inference.models": [],
        "inference.comparison": None,
        "inference.line": 1,
        "inference.trial": "",
    }
    return plain | {key if "." in key else f"inference.{key}": value for key, value in changes.items()}


def asked(studio: Studio, project: Project, *lines: str) -> Take:
    return studio.generations.submit(project, list(lines), model="base/tiny", settings=SpeechSettings())


def begun(studio: Studio, project: Project, *lines: str) -> Take:
    """A take of which a sentence is spoken."""
    take = asked(studio, project, *lines)
    until(take, lambda now: bool(now.sentences))
    return take


def newest(project: Project) -> Take:
    return list_takes(project)[0]


def test_the_first_sentence_is_played_and_the_whole_given_at_the_end(studio, project):
    updates = list(inference.speak(studio, form()))
    take = newest(project)
    played = [u["inference.player"] for u in updates if u.get("inference.player")]
    assert played == [str(take.folder / "0001-001.wav")]
    assert updates[-1]["inference.whole"] == str(take.folder / "0001.wav")
    assert (
        updates[0]["inference.current"] == take.id and text.TAKE_STATES["finished"] in updates[-1]["inference.status"]
    )


def test_a_take_that_is_spoken_names_its_sound_and_once_more_when_it_is_resumed(studio, project):
    updates = list(inference.speak(studio, form()))
    take = newest(project)
    named = {re.search('data-sound="([^"?]+)[^"]*"', update["inference.status"])[1] for update in updates}
    assert named == {f"speech/voice/{take.id}"} and studio.generations.sound("voice", take.id) is not None
    assert studio.generations.sound("voice", "another") is None and studio.generations.sound("other", take.id) is None
    assert "data-sound" not in inference.show_take(studio, form(take=take.id))["inference.status"]
    ended(asked(studio, project, "one", "crash"))
    first, second = (list(inference.resume(studio, form(take=newest(project).id)))[-1] for _ in range(2))
    sounds = [re.search('data-sound="([^"]+)"', update["inference.status"])[1] for update in (first, second)]
    assert sounds[0] != sounds[1]


def test_a_take_is_resumed_although_the_queue_has_not_dropped_it_yet(studio, project, monkeypatch):
    show = studio.generations._show

    def show_late(queued, take):
        if not take.is_live:
            time.sleep(0.2)
        show(queued, take)

    monkeypatch.setattr(studio.generations, "_show", show_late)
    take = ended(asked(studio, project, "one", "crash"))
    studio.generations.resume(project, take.id)
    assert ended(newest(project)).state == "failed"


def test_many_lines_do_not_keep_the_page_waiting(studio, project, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\ufeffone\n\ntwo\nunreadable\n", encoding="utf-8")
    (update,) = inference.speak(studio, form(text_file=str(path), by_lines=True))
    assert update[TOAST] == text.take_started(3)
    take = ended(newest(project))
    assert [line.text for line in take.lines] == ["one", "two", "unreadable"]
    shown = inference.show_take(studio, form(take=take.id))
    assert text.lines_done(2, 1, 3) in shown["inference.status"]
    assert inference.pack(studio, form(take=take.id))["inference.zip"]["value"].endswith("take.zip")


def test_settings_travel_to_the_take_and_back(studio, project):
    changed = {"inference.set_temperature": 0.2, "inference.set_top_k": "7", "inference.set_seed": "99"}
    list(inference.speak(studio, form(**changed, by_lines=False)))
    take = newest(project)
    assert (take.settings.temperature, take.settings.top_k, take.settings.seed) == (0.2, 7, 99)
    back = inference.reuse(studio, form(take=take.id))
    assert back["inference.text"] == "One." and back["inference.set_temperature"] == 0.2
    again = form(**{key: value for key, value in back.items() if key.startswith("inference.")})
    assert read_settings(project, again) == take.settings
    (project.dataset / "lang.txt").write_text("es", encoding="utf-8")
    assert read_settings(project, form()).language == "es"
    assert read_settings(project, form(**{"inference.set_language": "de"})).language == "de"


def test_a_new_take_each_time_draws_a_seed_that_the_take_remembers(studio, project):
    seeds = {read_settings(project, form(random_seed=True)).seed for _ in range(5)}
    assert len(seeds) == 5 and None not in seeds


def test_faults_are_told_before_anything_is_made(studio, project, tmp_path):
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    cases = [
        ({"text": " "}, "no text"),
        ({"model": None}, text.NO_MODEL_YET),
        ({"model": "base/none"}, "no model"),
        ({"model": "run/../../x/best"}, "no model"),
        ({"voice": "recording"}, text.NO_RECORDING),
        ({"voice": "clip"}, text.NO_CLIP),
        ({"voice": "clip", "clip": "../../secret.wav"}, text.NO_CLIP),
        ({"voice": "clip", "clip": str(tmp_path / "secret.wav")}, text.NO_CLIP),
        ({"text_file": str(binary)}, text.BAD_TEXT_FILE),
        ({"inference.set_temperature": 9, "inference.set_speed": 0}, "2 settings"),
        ({"project.project": "other"}, "no project"),
    ]
    for changes, fault in cases:
        with pytest.raises(UserError, match=fault):
            list(inference.speak(studio, form(**changes)))
    assert list_takes(project) == []


def test_a_clip_of_the_dataset_is_a_voice(studio, project):
    list(inference.speak(studio, form(voice="clip", clip="wavs/a.wav")))
    take = newest(project)
    assert (take.folder / take.reference).read_bytes() == b"sound" and take.reference_name == "a.wav"


def test_stop_stops_what_is_spoken_even_after_the_page_was_loaded_again(studio, project):
    take = begun(studio, project, "slow")
    shown = inference.stop(studio, form())
    stopped = ended(take)
    assert stopped.state == "stopped"
    # The page that began it follows it no more: its card and its recording are what stop returns.
    assert text.TAKE_STATES["stopped"] in shown["inference.status"] and shown["inference.current"] == take.id
    assert (
        shown["inference.whole"] == str(take.folder / stopped.lines[0].file)
        and Path(shown["inference.whole"]).is_file()
    )
    with pytest.raises(UserError, match=text.NOTHING_RUNS):
        inference.stop(studio, form())


def test_speak_on_a_page_that_still_speaks_says_so(studio, project):
    assert inference.say_busy(studio, form(current="")) == {}
    take = asked(studio, project, "slow")
    assert inference.say_busy(studio, form(current=take.id)) == {"toast": text.STILL_SPEAKING}
    studio.generations.stop(take.folder)
    ended(take)
    assert inference.say_busy(studio, form(current=take.id)) == {}
    assert inference.say_busy(studio, form(current="gone")) == {}


def test_a_stopped_take_goes_on(studio, project):
    take = asked(studio, project, "one", "slow")
    until(take, lambda now: len(now.sentences) == 2)
    studio.generations.stop(take.folder)
    ended(take)
    path = take.folder / "take.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"slow"', '"quick"'), encoding="utf-8")
    *_, last = inference.resume(studio, form(take=take.id))
    assert last["inference.whole"] and newest(project).state == "finished"
    with pytest.raises(UserError, match="every line"):
        list(inference.resume(studio, form(take=take.id)))


def test_training_unloads_the_model_and_the_user_is_told(studio, project):
    take = begun(studio, project, "slow")
    said = [free() for free in studio.before_training]
    assert said == [text.RELEASED] and studio.generations.worker.state == "off"
    assert ended(take).message == text.RELEASE_REASON
    assert [free() for free in studio.before_training] == [""]


def test_a_stopped_take_keeps_no_language_and_is_shown_in_each(studio, project):
    take = begun(studio, project, "slow")
    with speaking("es"):
        assert [free() for free in studio.before_training] == [text.TEXTS["es"]["RELEASED"]]
    assert ended(take).message == text.TEXTS["en"]["RELEASE_REASON"], "its next reader may speak another one"
    for code in ("en", "es"):
        with speaking(code):
            shown = inference.show_take(studio, form(take=take.id))["inference.status"]
            assert text.TEXTS[code]["RELEASE_REASON"] in shown


def test_what_a_user_typed_stays_text(studio, project):
    evil = "<img src=x onerror=alert(1)>"
    updates = list(inference.speak(studio, form(text=evil)))
    take = newest(project)
    shown = inference.show_take(studio, form(take=take.id))
    reported = "".join(str(update.get("inference.status", "")) for update in [*updates, shown])
    assert "<img" not in reported and "&lt;img" in reported
    take = find_take(project, take.id).changed(model=evil, message=evil, reference_name=evil, state="failed")
    take.save()
    assert "<img" not in inference.show_take(studio, form(take=take.id))["inference.status"]


def test_the_poll_shows_takes_under_way(studio, project):
    assert text.NO_TAKES in inference.activity(studio, form())["inference.progress"]
    take = begun(studio, project, "slow", "two")
    shown = inference.activity(studio, form())
    assert text.lines_done(0, 0, 2) in shown["inference.progress"]
    assert text.WORKER_STATES["busy"] in shown["inference.worker"]
    studio.generations.stop(take.folder)
    assert "inference.worker" in inference.activity(studio, form(**{"project.project": None}))


def test_an_export_that_speaks_worse_than_its_base_says_so(studio, project):
    project.ready.mkdir()
    for is_worse in (True, False):
        (project.ready / "about.json").write_text(json.dumps({"compared_with_base": {"is_worse": is_worse}}))
        shown = inference.activity(studio, form())["inference.progress"]
        assert (text.WORSE_THAN_BASE in shown) == is_worse


def test_models_are_listed_and_a_choice_that_is_gone_is_replaced(studio, project):
    listed = inference.models(studio, form(model="run/gone/best"))
    assert listed["inference.model"]["value"] == "base/starter"
    assert ("base tiny", "base/tiny") in listed["inference.model"]["choices"]
    assert inference.models(studio, form(**{"project.project": ""})) == {}
    project.ready.mkdir(parents=True)
    (project.ready / VOICE_FILE).write_bytes(b"")
    assert ("LoRA voice", "voice") in inference.models(studio, form())["inference.model"]["choices"]


def test_the_newest_model_is_offered_unless_a_person_chose(studio, project):
    def chosen(model: str, offered: str) -> tuple[str, str]:
        listed = inference.models(studio, form(model=model, offered=offered))
        return listed["inference.model"]["value"], listed["inference.offered"]

    base, offered = chosen("", "")
    assert base == offered and base.startswith("base/")
    project.ready.mkdir(parents=True)
    (project.ready / "model.pth").write_bytes(b"")
    assert chosen(base, base) == ("ready", "ready"), "it was only offered"
    assert chosen("base/tiny", "ready") == ("base/tiny", "ready"), "a person chose it"
    assert chosen("base/tiny", "") == ("base/tiny", "ready"), "a script chose it"


def test_another_project_gets_nothing_of_what_was_chosen_for_the_one_before(studio, project):
    other = Project(name="other", output=project.output)
    for one in (project, other):
        one.ready.mkdir(parents=True)
        (one.ready / "model.pth").write_bytes(b"")
    mine = form(model="base/tiny", offered="ready", listed="voice", current="20260101-000000-1-000")
    assert inference.models(studio, mine)["inference.model"]["value"] == "base/tiny"
    assert "inference.whole" not in inference.models(studio, mine)
    updates = inference.models(studio, {**mine, "project.project": "other"})
    assert updates["inference.model"]["value"] == "ready" and updates["inference.listed"] == "other"
    lists = [updates[f"inference.{name}"]["value"] for name in ("models", "clip", "comparison", "take")]
    assert lists == [[], None, None, None]
    assert updates["inference.current"] == "" and updates["inference.whole"] is None
    assert set(inference.OF_PROJECT) <= set(updates)


def test_comparing_and_judging_blind(studio, project, monkeypatch):
    find = inference.speak.__globals__["speaking_models"](project)[0]
    for place in ("utils.speech.compare", "utils.speech.take_queue"):
        monkeypatch.setattr(f"{place}.find_model", lambda project, name: find)
    *_, last = compare.start(studio, form(models=["base/one", "base/two"], text="one\ntwo", by_lines=True))
    visible = [last[side] for side in compare.SIDES if last[side]["visible"]]
    assert [side["label"].split()[0] for side in visible] == ["base/one", "base/two"]
    assert all(Path(side["value"]).is_file() for side in visible)
    identity = last["inference.trial"].partition("/")[0]
    first = compare.prefer_a(studio, form(trial=last["inference.trial"]))
    assert "You preferred" in first["inference.voted"]
    second = compare.prefer_same(studio, form(trial=first["inference.trial"]))
    assert second["inference.trial"] == "" and text.ALL_RATED in second["inference.votes"]
    with pytest.raises(UserError, match="no pair to rate"):
        compare.prefer_b(studio, form(trial=""))
    shown = compare.show(studio, form(comparison=identity, line=2))
    assert shown[compare.SIDES[0]]["value"].endswith("0002.wav")
    with pytest.raises(UserError, match="no line 3"):
        compare.show(studio, form(comparison=identity, line=3))
    with pytest.raises(UserError, match="models are selected"):
        list(compare.start(studio, form(models=["base/one"])))


# The machine is for one


def test_a_refused_start_stops_no_take_and_each_that_starts_tells_what_it_stopped(studio, project, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise UserError(what="the CPU is in use")

    def started(kind: str, config: object, *, before: Callable[[], object]) -> None:
        before()

    project.train_csv.write_text("audio_file|text|speaker_name\nwavs/a.wav|One|one\n")
    project.eval_csv.write_text(project.train_csv.read_text())
    run = SimpleNamespace(folder=project.runs / "run-1", alive=False)
    monkeypatch.setattr(training, "shown_run", lambda *_: run)
    monkeypatch.setattr(jobs, "wait", lambda *_: None)
    config = TrainConfig(project="voice", output=project.output, base="tiny")
    monkeypatch.setattr(training, "training_config", lambda *_: config)
    asked = form() | {"train.run": ""}
    for handler in (training.start, training.resume):
        take = begun(studio, project, "slow")
        monkeypatch.setattr(jobs, "start", refused)
        with pytest.raises(UserError, match="in use"):
            handler(studio, asked)
        assert find_take(project, take.id).is_live
        monkeypatch.setattr(jobs, "start", started)
        assert text.RELEASED in handler(studio, asked)[TOAST]
        assert ended(take).state == "stopped"


def test_what_is_being_spoken_for_one_project_is_not_shown_for_another(laid_out):
    """The page's events that run for long end where another project is chosen; the takes themselves continue."""
    long = {
        number
        for number, fn in laid_out.fns.items()
        if fn.api_name in ("inference_speak", "inference_continue", "inference_compare")
    }
    cancelled = [set(fn.cancels) for fn in laid_out.fns.values() if fn.cancels]
    assert cancelled == [long] and len(long) == 3
