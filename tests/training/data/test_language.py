"""The guide's call for Amharic, word for word, and what speaks afterwards: one text path from training to speech."""

import json
from pathlib import Path

import pytest
import torch

from tests.configs import tiny_run
from tests.sounds import make_project
from utils.bases.base import Base
from utils.bases.find import find_base, run_base
from utils.bases.grow import EMBEDDING
from utils.config import ExportConfig, TrainConfig
from utils.dataset.quality.checks import Checks
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.dataset.storage.report import ClipReport
from utils.errors import UserError
from utils.gpt_train import TrainedModel, train_gpt
from utils.inference.engine import Synthesizer
from utils.inference.export import export_model
from utils.language.lengths import measure_lengths
from utils.project.paths import Project
from utils.training.data.base import language_base
from utils.training.train import fine_tune

TEXTS = ["ሰላም ለዓለም።", "ጤና ይስጥልኝ።", "በ2015 ዓ.ም. ተወለደ።", "ዶ/ር አበበ መጣ።", "ፀሐይ ወጣች።", "ቋንቋ ሀብት ነው።"]


@pytest.fixture(scope="module")
def amharic(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("output"), num_train=4, num_eval=2)
    texts = iter(TEXTS)
    for csv in (project.train_csv, project.eval_csv):
        clips = read_manifest(csv)
        write_manifest(csv, [Clip(audio=clip.audio, text=next(texts), speaker=clip.speaker) for clip in clips])
    project.language_file.write_text("amh", encoding="utf-8")
    return project


@pytest.fixture(scope="module")
def trained(amharic: Project) -> TrainedModel:
    return train_gpt(
        custom_model="",
        version="tiny",
        language="amh",
        num_epochs=1,
        batch_size=2,
        grad_acumm=1,
        train_csv=str(amharic.train_csv),
        eval_csv=str(amharic.eval_csv),
        output_path=str(amharic.folder),
        max_audio_length=255_995,
        enable_grad_checkpoint=True,
        enable_sdpa=True,
        enable_mixed_precision=False,
        use_amharic_g2p=True,
        in_process=True,
    )


def test_the_guides_call_trains_on_every_clip_and_returns_paths(trained, amharic):
    speaker_path, config, checkpoint, vocab, exp_path, ref_audio = trained
    for path in (speaker_path, config, checkpoint, vocab, ref_audio):
        assert Path(path).is_file(), path
    assert Path(exp_path).parent == amharic.runs
    assert json.loads(Path(config).read_text())["model"] == "xtts"
    events = (Path(exp_path) / "events.jsonl").read_text(encoding="utf-8")
    started = json.loads(events.splitlines()[0])
    assert (started["clips"], started["eval_clips"], started["dropped"]) == (4, 2, [])


def test_the_export_says_how_it_reads_and_speaks_so(amharic, trained):
    ready = export_model(ExportConfig(project=amharic.name, output=amharic.output))
    about = json.loads((ready / "about.json").read_text(encoding="utf-8"))
    assert (about["language"], about["amharic_g2p"]) == ("amh", True)
    synthesizer = Synthesizer(Base(ready))
    (piece,) = synthesizer.pieces("በ2015 ዓ.ም. ተወለደ።", "am", split="joined")
    assert synthesizer.tokenizer.decode(piece.tokens) == "[amh]bähulät ših asra amsıt amätä mıhrät täwälädä."


def test_a_base_that_lacks_letters_of_the_latin_form_gets_them_and_the_user_is_told_once(amharic):
    """The starter reads a to z: preparing and training read with the same letters, ä ı ť and all others."""
    lacks = find_base("starter").tokenizer().unknown_characters("äıťñčšž", "en")
    assert lacks, "nothing to test"
    asked = {"project": amharic.name, "output": amharic.output, "base": "starter", "input": amharic.dataset}
    checks = Checks.of(PrepareConfig(**asked, language="am", use_amharic_g2p=True), find_base("starter"))
    clips = [ClipReport(source="a.wav", status="used", text=text) for text in TEXTS]
    assert [checks.read(clip)[1] for clip in clips] == [None] * len(TEXTS)
    settings = {"base": "starter", "language": "amh", "num_epochs": 1, "use_amharic_g2p": True, "sample_text": ""}
    run = fine_tune(tiny_run(amharic, **settings)).folder
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    assert (events[0]["clips"], events[0]["eval_clips"], events[0]["dropped"]) == (4, 2, [])
    (reported,) = [event["message"] for event in events if event.get("source") == "language"]
    base = run_base(run)
    assert all(letter in reported for letter in ["[amh]", *lacks]) and str(base.folder) in reported
    planned = measure_lengths(amharic.train_csv, find_base("starter"), "amh", use_amharic_g2p=True)
    expected = [len(base.tokenizer().encode(clip.text, "amh")) for clip in read_manifest(amharic.train_csv)]
    assert planned.tokens.tolist() == expected and base.tokenizer().path.parent == base.folder


def test_a_damaged_copy_is_refused_before_a_run_exists(amharic):
    config = TrainConfig(project=amharic.name, output=amharic.output, language="amh", use_amharic_g2p=True)
    copy = language_base(config, amharic, find_base("starter"))
    content = copy.vocab.read_bytes()
    copy.vocab.write_bytes(content + b" ")
    with pytest.raises(UserError, match=r"vocab\.json is not the file") as caught:
        language_base(config, amharic, find_base("starter"))
    assert "made again by the next training" in caught.value.fix
    copy.vocab.write_bytes(content)


def test_old_rows_are_the_bases_own(amharic):
    base = find_base("tiny")
    config = tiny_run(amharic, language="amh", use_amharic_g2p=True)
    grown = language_base(config, amharic, base)
    rows = base.state()[EMBEDDING].shape[0]
    assert torch.equal(grown.state()[EMBEDDING][:rows], base.state()[EMBEDDING])
    assert grown.gpt_shape().start_text == base.gpt_shape().start_text
    assert language_base(config, amharic, base).folder == grown.folder, "it is made once"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"language": "en", "use_amharic_g2p": True}, "is for Amharic"),
        ({"language": "amh"}, "cannot read the language 'amh'"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run_exists(amharic, settings, message):
    before = set(amharic.runs.iterdir()) if amharic.runs.is_dir() else set()
    with pytest.raises(UserError, match=message):
        fine_tune(tiny_run(amharic, **settings))
    assert (set(amharic.runs.iterdir()) if amharic.runs.is_dir() else set()) == before


def test_a_base_that_reads_latin_is_not_fed_ethiopic_letters(amharic, trained):
    base = Base(Path(json.loads((Path(trained.exp_path) / "base.json").read_text(encoding="utf-8"))["folder"]))
    config = tiny_run(amharic, language="am")
    with pytest.raises(UserError, match="use_amharic_g2p is off"):
        language_base(config, amharic, base)


def test_lengths_are_planned_with_the_tokens_that_training_reads_and_nothing_is_made_for_it(trained, amharic):
    before = set(amharic.dataset.iterdir())
    lengths = measure_lengths(amharic.train_csv, find_base("tiny"), "amh", use_amharic_g2p=True)
    grown = run_base(Path(trained.exp_path)).folder
    tokenizer = Base(grown).tokenizer()
    expected = [len(tokenizer.encode(clip.text, "amh")) for clip in read_manifest(amharic.train_csv)]
    assert lengths.tokens.tolist() == expected
    assert set(amharic.dataset.iterdir()) == before
    with pytest.raises(UserError) as caught:
        measure_lengths(amharic.train_csv, find_base("tiny"), "amh")
    assert "--use-amharic-g2p" in caught.value.fix
    with pytest.raises(UserError, match="use_amharic_g2p is for Amharic"):
        measure_lengths(amharic.train_csv, find_base("tiny"), "en", use_amharic_g2p=True)
