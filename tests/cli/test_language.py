"""python -m utils.cli.language: what a base lacks, a base that reads it, and plain answers to what cannot be."""

import json
from pathlib import Path

import pytest

from tests.sounds import make_project
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.cli.language import main
from utils.config import TrainConfig
from utils.dataset.quality.checks import Checks
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.errors import UserError
from utils.language.reading import long_limits
from utils.project.paths import Project
from utils.text.language_settings import READING_FILE
from utils.training.plan import settle

GEORGIAN = ["გამარჯობა, როგორ ხარ?", "მე მიყვარს საქართველო.", "თბილისი ლამაზი ქალაქია."]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(GEORGIAN * 20), encoding="utf-8")
    return path


def flags(tmp_path: Path, *more: object) -> list[str]:
    return ["--project", "p", "--output", str(tmp_path), "--base", "tiny", *map(str, more)]


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="2"):
        main(args)
    return capsys.readouterr().err


def test_a_language_nobody_has_rules_for_is_looked_at_then_added(tmp_path, corpus, capsys):
    corpus.write_text("\n".join(GEORGIAN * 20) + "\n50% 😀", encoding="utf-8")
    main(flags(tmp_path, "--language", "ka", "--corpus", corpus))
    said = capsys.readouterr().out
    assert "unknown letters   ა 240" in said
    assert "no number words for ka: 50 stays digits" in said and "no word for % in ka" in said
    assert "dropped, not spoken: U+1F600" in said
    assert "advice: extend (--extend 2000): the base lacks letters of this language" in said
    assert not (tmp_path / "p" / "base-ka").exists(), "looking changes nothing"

    main(flags(tmp_path, "--language", "ka", "--corpus", corpus, "--extend", 60))
    said = capsys.readouterr().out
    before, after = (float(line.split()[-1]) for line in said.splitlines() if "tokens a word" in line)
    assert after < before
    assert "unknown letters   % 1\n" in said.split("after")[1], "a sign that has no word is no letter of the language"
    kept = json.loads((tmp_path / "p" / READING_FILE).read_text(encoding="utf-8"))
    assert kept["added"] and all(f"{count} pieces dropped: {why}" in said for why, count in kept["left_out"].items())
    base = Base(tmp_path / "p" / "base-ka")
    assert f"base    {base.folder}" in said and "limits  400 tokens, 15.0 s" in said
    assert base.tokenizer().unknown_characters(GEORGIAN[0], "ka") == []
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["base-ka", READING_FILE], (
        "nothing temporary stays"
    )

    again = flags(tmp_path, "--language", "ka", "--corpus", corpus, "--extend", 60)
    said = refused(again, capsys)
    assert "base-ka already exists" in said and "--another" in said and "base-ka-2" in said
    before = base.about
    main([*again, "--another"])
    another = Base(tmp_path / "p" / "base-ka-2")
    assert (another.name, Base(base.folder).about) == (f"{base.name}-2", before)
    assert another.tokenizer().unknown_characters(GEORGIAN[0], "ka") == []


def test_a_sign_without_a_word_is_no_reason_for_another_vocabulary(tmp_path, capsys):
    (tmp_path / "c.txt").write_text("habari yako leo\nasilimia 50%\n", encoding="utf-8")
    main(flags(tmp_path, "--language", "sw", "--corpus", tmp_path / "c.txt"))
    assert "advice: add the language's token (--extend 0): the base reads its letters" in capsys.readouterr().out


@pytest.mark.slow
def test_the_clips_of_a_project_tell_tokens_a_second_and_amharic_is_transliterated(tmp_path, capsys):
    project = make_project(tmp_path, name="p", num_train=2, num_eval=1)
    clips = [Clip(audio=c.audio, text="ሰላም ለዓለም።", speaker=c.speaker) for c in read_manifest(project.train_csv)]
    write_manifest(project.train_csv, clips)
    main(flags(tmp_path, "--language", "am"))
    said = capsys.readouterr().out
    assert "or more, transliterate (--g2p amh) with less" in said
    assert "tokens a second   " in said and "no sound given" not in said
    main(flags(tmp_path, "--language", "am", "--g2p", "amh"))
    said = capsys.readouterr().out
    assert "sample            s ä l a m [SPACE] l ä ' a l ä m ." in said.split("after")[1]
    assert "--use-amharic-g2p" in said
    latin = Base(project.folder / "base-amh")
    assert latin.amharic_g2p
    assert latin.tokenizer().unknown_characters("ሰዸም ነው", "am") == ["ዸ"], "named, where it ended the work before"


@pytest.mark.slow
def test_the_latin_form_brings_the_letters_that_a_base_lacks(tmp_path, capsys):
    (tmp_path / "c.txt").write_text("ሰላም ለዓለም። ቋንቋ ሀብት ነው። ጤና ይስጥልኝ ዠ ቸ ጨ\n", encoding="utf-8")
    args = ["--project", "p", "--output", str(tmp_path), "--base", "starter", "--corpus", str(tmp_path / "c.txt")]
    main([*args, "--language", "am", "--g2p", "amh"])
    assert "unknown letters   none" in capsys.readouterr().out.split("after")[1]
    base = find_base(str(tmp_path / "p" / "base-amh"))
    assert base.tokenizer().unknown_characters("ሰላም ጨ ቸ ዠ ኝ ጥ", "am") == []


def test_the_new_bases_limits_are_long_and_reach_preparing_and_training(tmp_path, corpus):
    main(flags(tmp_path, "--language", "ka", "--corpus", corpus, "--extend", 40))
    base = Base(tmp_path / "p" / "base-ka")
    assert base.about["training"]["learning_rate"] == find_base("tiny").about["training"]["learning_rate"]
    checks = Checks.of(PrepareConfig(base="tiny", project="p", input=tmp_path, language="ka"), base)
    assert (checks.max_text_length, checks.max_audio_length) == (400, 330_750)
    project = Project(name="p", output=tmp_path)
    settled = settle(TrainConfig(base="tiny", project="p", output=tmp_path, language="ka"), project, base)
    assert (settled.max_text_length, settled.max_audio_length) == (400, 330_750)


def test_limits_beyond_the_models_own_are_refused_before_any_work(tmp_path, corpus, capsys):
    args = flags(tmp_path, "--language", "ka", "--corpus", corpus, "--extend", 40)
    error = refused([*args, "--max-text-length", "403", "--max-audio-length", "700000"], capsys)
    assert "max_text_length is 403 tokens; this model takes 402" in error
    assert "max_audio_length is 700000 samples; this model takes 618496" in error
    assert not (tmp_path / "p").exists() or not any((tmp_path / "p").iterdir())
    limits = long_limits(find_base("tiny"), max_text_length=402, max_audio_length=None)
    assert limits == {"max_text_length": 402, "max_audio_length": 330_750}
    with pytest.raises(UserError, match="403"):
        long_limits(find_base("tiny"), max_text_length=403, max_audio_length=None)


def test_a_target_larger_than_the_corpus_can_give_is_reported(tmp_path, corpus, capsys):
    main(flags(tmp_path, "--language", "ka", "--corpus", corpus, "--extend", 5_000))
    said = capsys.readouterr().out
    assert "the corpus gives no more than that; 5000 were asked for" in said


def test_what_cannot_be_is_said_with_all_faults(tmp_path, capsys):
    error = refused(
        flags(tmp_path, "--language", "ka", "--extend", 5, "--g2p", "amh", "--character-coverage", 0.5), capsys
    )
    assert "extend and g2p are alternatives" in error and "character_coverage is 0.5" in error
    assert "limits of a new base" in refused(flags(tmp_path, "--language", "ka", "--max-text-length", 400), capsys)
