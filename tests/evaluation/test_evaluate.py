"""The whole evaluation of a tiny project: a real run, real speech (noise, as tiny speaks), real files."""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.configs import tiny_run
from tests.evaluation.sounds import in_a_room, recording
from tests.hardware.machines import Answers
from tests.sounds import make_project
from utils.audio.resample import resample
from utils.cli import demo
from utils.cli import evaluate as command
from utils.config import ExportConfig
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.errors import UserError
from utils.evaluation.defects import end_of_sound
from utils.evaluation.evaluate import EvaluateConfig, evaluate
from utils.evaluation.features import RATE
from utils.evaluation.measure import Said, SpokenSentence, score_model
from utils.evaluation.recognition import Recognizer
from utils.inference import device as device_module
from utils.inference import model_cache
from utils.inference.export import export_model
from utils.inference.model_cache import ModelCache
from utils.jobs.device import Claim
from utils.options import OUTPUT_RATE
from utils.project.paths import Project
from utils.runs.process import ProcessId
from utils.training.train import fine_tune

SHARES = ("retrieval", "near_miss", "silent", "run_on", "early_stop", "loop")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Project:
    """A project with one short run; its evaluation clips say little, so that noise is soon spoken."""
    project = make_project(tmp_path_factory.mktemp("output"), num_train=4)
    clips = [project.dataset / "wavs" / f"clip{number}.wav" for number in (4, 5)]
    texts = ["Come in.", "No."]
    write_manifest(
        project.eval_csv,
        [Clip(audio=clip, text=text, speaker="one") for clip, text in zip(clips, texts, strict=True)],
    )
    fine_tune(tiny_run(project, num_epochs=1))
    return project


def test_a_project_is_measured_on_its_evaluation_clips(trained, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")  # no espeak-ng
    export_model(ExportConfig(project=trained.name, output=trained.output))
    command.main(["--project", trained.name, "--output", str(trained.output), "--checkpoint", "best,base,ready"])
    printed = capsys.readouterr().out
    assert "right sentence among all" in printed
    assert "not measured: right sentence among near misses: espeak-ng is not installed" in printed
    assert "not measured: word error rate: no recognizer is installed" in printed
    (folder,) = (trained.folder / "evaluation").iterdir()
    found = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert [model["name"] for model in found["models"]] == ["best", "base", "ready"]
    assert set(found["missing"]) - {"second_cosine"} == {"near_miss", "wer", "cer"}
    for model in found["models"]:
        assert [sentence["text"] for sentence in model["sentences"]] == ["Come in.", "No."]
        assert model["summary"]["near_miss"] is None
        assert 0 < model["summary"]["real_time"] < 100
        for sentence in model["sentences"]:
            assert (folder / sentence["wav"]).stat().st_size > 1000
            assert sentence["cosine"] is None or -1 <= sentence["cosine"] <= 1
    assert all((folder / picture).read_bytes()[:4] == b"\x89PNG" for picture in ("summary.png", "sentences.png"))


def test_the_demo_compares_the_base_with_the_trained_voice(trained, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys.modules["utils.evaluation.evaluate"], "evaluate", lambda config, progress: config)
    config = demo.DemoConfig(project=trained.name, output=trained.output, base="tiny")
    asked = demo.measure_voices(config, lambda *_: None)
    assert (asked.checkpoint, asked.sentences, asked.project) == ("base,ready", None, trained.name)


def test_a_text_file_needs_the_synthesiser(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    lines = tmp_path / "lines.txt"
    lines.write_text("Come in.\nNo.\n", encoding="utf-8")
    config = EvaluateConfig(project=trained.name, output=trained.output, sentences=lines)
    with pytest.raises(UserError, match="espeak-ng is not installed"):
        evaluate(config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"project": "voice", "checkpoint": "best,worst"}, "checkpoint is 'best,worst'"),
        ({"project": "voice", "model": "tiny"}, "either a project or a model"),
        ({"model": "tiny"}, "give --sentences FILE"),
        ({"project": "voice", "num_sentences": 1}, "num_sentences is 1"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings, message, tmp_path):
    with pytest.raises(UserError, match=message):
        evaluate(EvaluateConfig(output=tmp_path, **settings))


def test_an_untrained_project_says_how_to_train(tmp_path):
    project = make_project(tmp_path)
    with pytest.raises(UserError, match=r"utils\.cli\.train"):
        evaluate(EvaluateConfig(project=project.name, output=tmp_path))


def test_perfect_speech_has_perfect_scores_and_spoiled_speech_has_not(tmp_path):
    sentences = [
        SpokenSentence(
            text=f"sentence {number}",
            reference=recording(number),
            rendition=recording(number),
            near_misses=[torch.cat([recording(number)[:, : 2 * RATE // 3], recording(number + 1)], dim=1)],
        )
        for number in range(2, 8)
    ]
    voice = torch.cat([recording(20), recording(22)], dim=1)
    spoiled = {2: torch.zeros(1, OUTPUT_RATE), 3: _at_24k(recording(4))}

    def right(sentence: SpokenSentence) -> Said:
        return Said(wav=_at_24k(sentence.reference), finished=True)

    def wrong(sentence: SpokenSentence) -> Said:
        number = int(sentence.text.split()[1])
        return Said(wav=spoiled.get(number, _at_24k(in_a_room(sentence.reference))), finished=number != 5)

    def recognized(wav: torch.Tensor) -> str:
        return "sentence 2" if wav.shape[1] == sentences[0].reference.shape[1] else ""

    recognizer = Recognizer(name="known", language="en", hear=recognized)
    right_speech, wrong_speech = map(right, sentences), map(wrong, sentences)
    good = score_model("good", right_speech, sentences, voice=voice, folder=tmp_path, recognizer=recognizer)
    bad = score_model("bad", wrong_speech, sentences, voice=voice, folder=tmp_path)
    assert {name: good.summary[name] for name in SHARES} == dict(zip(SHARES, (1, 1, 0, 0, 0, 0), strict=True))
    assert good.summary["mcd_db"] < 0.5
    assert good.summary["duration_ratio"] == pytest.approx(1, abs=0.02)
    assert good.summary["cosine"] is None
    assert [(one.wer, one.cer) for one in good.scores[:2]] == [(0, 0), (1, 1)]
    assert good.summary["wer"] == pytest.approx(5 / 6) and good.summary["agreement"] == pytest.approx(1 / 6)
    assert bad.summary["wer"] is None and bad.summary["agreement"] is None
    assert bad.summary["retrieval"] == pytest.approx(4 / 6)
    assert bad.scores[0].defects == ["silent", "early_stop"]
    assert bad.scores[1].retrieval_rank > 1
    assert bad.scores[3].defects == ["run_on"]
    assert np.isinf(bad.scores[0].mcd_db)
    assert bad.summary["mcd_db"] > good.summary["mcd_db"]
    assert (tmp_path / "bad" / "005.wav").is_file()


def test_a_recognizer_that_heard_the_end_decides_how_a_sentence_ended(tmp_path):
    sentence = SpokenSentence(text="the last word", reference=recording(2))
    seconds = recording(2).shape[1] / RATE

    def defects(sound: torch.Tensor, recognized: str, end: float | None) -> list[str]:
        said = Said(wav=_at_24k(sound), finished=True)
        recognizer = Recognizer(name="known", language="en", hear=lambda _: recognized, end_of=lambda _: end)
        found = score_model("one", [said], [sentence], voice=recording(20), folder=tmp_path, recognizer=recognizer)
        return found.scores[0].defects

    half, longer = recording(2)[:, : recording(2).shape[1] // 2], torch.cat([recording(2), recording(4)], dim=1)
    assert defects(half, "The lost sword.", seconds / 2) == []
    assert defects(half, "The last", seconds / 2) == ["early_stop"], "a word is missing"
    assert "run_on" in defects(longer, "The last word", None), "nothing is known of where it ended"
    assert "run_on" in defects(longer, "The last word", seconds), "sound continues after the last word"
    assert "run_on" in defects(longer, "The last word again", 2 * seconds), "a word is added"
    assert defects(longer, "The last word", end_of_sound(longer)) == []


def _at_24k(wav: torch.Tensor) -> torch.Tensor:
    return resample(wav, RATE, OUTPUT_RATE)


def test_an_idle_gpu_evaluates_and_a_training_keeps_it(trained, tmp_path, monkeypatch):
    """Without a GPU: the driver is a stub, and loading ends with the device that was chosen."""

    def load(cache: ModelCache, **source: str) -> None:
        raise UserError(what=f"{cache.device} {Claim('cuda:0', tmp_path).named() is not None}")

    Answers().install(monkeypatch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for module in (device_module, model_cache):
        monkeypatch.setattr(module, "settle_device", lambda requested: ("cpu" if requested == "cpu" else "cuda", ""))
    monkeypatch.setattr(ModelCache, "load", load)
    config = EvaluateConfig(project=trained.name, output=trained.output, checkpoint="base")
    with pytest.raises(UserError, match="cuda True"):
        evaluate(config)
    with pytest.raises(UserError, match="cpu False"):
        evaluate(replace(config, device="cpu"))
    assert Claim("cuda:0", tmp_path).named() is None, "it is free again"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as training:
        Claim("cuda:0", tmp_path).give(tmp_path, "train", ProcessId.of(training.pid))
        with pytest.raises(UserError, match="cpu True"):
            evaluate(config)
        training.kill()
