"""python -m utils.cli.lengths: a table of lengths and the limits for training, or a plain message and status 2."""

import pytest

from tests.sounds import make_project
from utils.cli.lengths import main
from utils.project.paths import Project, assets_folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("output"))


def test_lengths_of_the_bundled_voice(capsys):
    main(["--csv", str(assets_folder() / "demo_voice" / "metadata.csv"), "--language", "en", "--base", "tiny"])
    lines = capsys.readouterr().out.splitlines()
    assert "40 clips, 0.05 h; base tiny, language en (as given)" in lines[0]
    table = {line[:15].strip(): line[15:].split() for line in lines[2:7]}
    assert table["percentile"] == ["50", "90", "95", "99", "99.5", "100"]
    assert table["seconds"][-1] == "6.00" and table["samples"][-1] == "132300"
    assert table["audio codes"][-1] == "130"
    limits = {line.split()[0]: int(line.split()[1]) for line in lines if line.strip().startswith("--max")}
    assert limits["--max-audio-length"] == 132_352
    assert limits["--max-text-length"] % 8 == 0 and limits["--max-text-length"] >= int(table["text tokens"][-1])
    assert lines[-1] == "0 of 40 clips are longer and would be excluded"


def test_a_project_brings_its_table_and_language(project, capsys):
    main(["--project", project.name, "--output", str(project.output), "--base", "tiny"])
    assert "6 clips, 0.00 h; base tiny, language en (from lang.txt)" in capsys.readouterr().out


def test_a_language_that_nobody_named_is_said_to_be_assumed(project, tmp_path, capsys):
    table = tmp_path / "metadata.csv"
    audio = project.dataset / "wavs" / "clip0.wav"
    table.write_text(f"audio_file|text\n{audio}|Hello there.\nnowhere.wav|Hello.\n", encoding="utf-8")
    main(["--csv", str(table), "--base", "tiny"])
    lines = capsys.readouterr().out.splitlines()
    assert "language en (assumed; give --language if it is another)" in lines[0]
    assert lines[-1] == "not counted: nowhere.wav: nowhere.wav does not exist"


@pytest.mark.slow
def test_amharic_is_planned_in_its_latin_form_where_training_reads_it_so(project, tmp_path, capsys):
    table = tmp_path / "metadata.csv"
    audio = project.dataset / "wavs" / "clip0.wav"
    table.write_text(f"audio_file|text\n{audio}|ሰላም ለዓለም።\n", encoding="utf-8")
    main(["--csv", str(table), "--base", "tiny", "--language", "amh", "--use-amharic-g2p"])
    lines = capsys.readouterr().out.splitlines()
    assert "1 clips" in lines[0] and "language amh (as given)" in lines[0]
    assert next(int(line.split()[-1]) for line in lines if line.startswith("text tokens")) > 5


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give either a csv or a project"),
        (["--csv", "nowhere.csv"], "the file cannot be read"),
        (["--project", "../voice"], "cannot be used as a project name"),
        (["--csv", "a.csv", "--base", "nothing"], "there is no base 'nothing'"),
        (["--what"], "--what"),
    ],
)
def test_what_cannot_be_measured_exits_with_2(tmp_path, capsys, args, message):
    with pytest.raises(SystemExit, match="2"):
        main([*args, "--output", str(tmp_path)])
    text = capsys.readouterr().err
    assert message in text and "Traceback" not in text
