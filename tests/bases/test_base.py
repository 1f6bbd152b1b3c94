"""Bases: made, found, read, and refused when something is wrong with them."""

import errno
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from tests.saving import same
from utils.bases.base import XTTS_CROP, Base, TrainingDefaults
from utils.bases.decoder import load_decoder
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.bases.tiny import make_tiny
from utils.errors import UserError
from utils.model.dvae import fingerprint, load_code_encoder
from utils.model.weights import NoRandomWeights, read_weights, write_pickle, write_weights


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of the tiny base that a test may break."""
    return Path(shutil.copytree(find_base("tiny").folder, tmp_path / "base"))


def test_tiny_is_made_once_and_always_the_same(tmp_path):
    first = find_base("tiny")
    assert find_base("tiny").folder == first.folder
    again = Base(make_tiny(tmp_path / "again"))
    mine, theirs = first.state(), again.state()
    assert mine.keys() == theirs.keys()
    assert same(mine, theirs)
    assert not list(tmp_path.glob(".again*")), "nothing temporary is left"


def test_every_module_of_the_real_model_is_there():
    base = find_base("tiny")
    gpt, decoder = load_gpt(base), load_decoder(base)
    assert sum(p.numel() for p in gpt.parameters()) == 2_487_003
    assert base.decoder_shape().is_stock and decoder.speaker_encoder is not None
    assert len(base.tokenizer().languages) == 17
    assert base.mel_stats().shape == (80,)
    assert load_code_encoder(base.dvae, base.mel_stats()).codebook.embed.shape[1] == 1024


def test_defaults_belong_to_the_base(folder):
    assert Base(folder).defaults.learning_rate == 3e-3
    (folder / "about.json").write_text(json.dumps({"training": {"learning_rate": 1e-4, "crop": [1, 2], "new": 1}}))
    assert Base(folder).defaults == TrainingDefaults(learning_rate=1e-4, crop=(1, 2))
    (folder / "about.json").unlink()
    assert Base(folder).defaults == TrainingDefaults() and TrainingDefaults().learning_rate == 5e-6
    assert Base(folder).defaults.crop == XTTS_CROP


def test_a_checkpoint_of_stocks_trainer_is_read(folder):
    """Stock prefixes names with xtts. and keeps DVAE and spectrograms in the same file."""
    state = {f"xtts.{name}": tensor for name, tensor in Base(folder).state().items()}
    state |= {"dvae.encoder.0.0.weight": torch.zeros(1), "torch_mel_spectrogram_dvae.mel_stft.window": torch.zeros(1)}
    (folder / "model.safetensors").unlink()
    torch.save({"model": state, "step": 3, "config": {"lr": 1e-5}}, folder / "model.pth")
    original = find_base("tiny").state()
    assert Base(folder).state().keys() == original.keys()
    assert torch.equal(load_gpt(Base(folder)).mel_head.weight, original["gpt.mel_head.weight"])


def test_a_published_checkpoint_with_its_settings_inside_is_read(folder):
    """The published model.pth pickles XttsConfig objects of an older module beside the tensors."""
    from TTS.tts.configs.xtts_config import XttsArgs, XttsAudioConfig

    from utils.model.weights import _xtts_config_classes

    for kept in (XttsArgs, XttsAudioConfig):
        kept.__module__ = "TTS.tts.models.xtts"
    try:
        torch.save({"model": Base(folder).state(), "config": XttsArgs()}, folder / "model.pth")
    finally:
        for kept in (XttsArgs, XttsAudioConfig):
            kept.__module__ = "TTS.tts.configs.xtts_config"
    with _xtts_config_classes():
        pass
    (folder / "model.safetensors").unlink()
    assert "gpt.mel_head.weight" in Base(folder).state()


class Payload:
    """A pickle that would run code when loaded."""

    def __reduce__(self) -> tuple:
        return (Path.touch, (Path("payload-ran"),))


def test_a_pickle_with_a_payload_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Payload()}, tmp_path / "model.pth")
    with pytest.raises(UserError, match="cannot be read"):
        read_weights(tmp_path / "model.pth")
    assert not (tmp_path / "payload-ran").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "dvae.safetensors", "mel_stats.pth"])
@pytest.mark.parametrize("damage", ["cut", "empty", "text"])
def test_damaged_files_are_named(folder, name, damage):
    file = folder / name
    content = {"cut": file.read_bytes()[:1000], "empty": b"", "text": b"<html>not found</html>"}[damage]
    file.write_bytes(content)
    with pytest.raises(UserError) as error:
        base = Base(folder)
        load_gpt(base)
        load_code_encoder(base.dvae, base.mel_stats())
    assert name in error.value.where


def test_weights_of_another_vocabulary_are_refused_with_both_sizes(folder):
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    vocabulary["model"]["vocab"]["zzz"] = 500
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    with pytest.raises(UserError, match=r"\(389, 128\) in the weights, \(501, 128\)"):
        load_gpt(Base(folder))


def test_foreign_and_incomplete_weights_are_refused(folder):
    state = Base(folder).state()
    state.pop("gpt.final_norm.weight")
    write_weights(folder / "model.safetensors", {**state, "gpt.surprise": torch.zeros(1)})
    with pytest.raises(UserError, match=r"missing \['final_norm.weight'\], unknown \['surprise'\]"):
        load_gpt(Base(folder))


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        "no json",
        pytest.param("[" * 100_000, id="nested"),
        '{"model_args": {"gpt_use_perceiver_resampler": false}}',
    ],
)
def test_a_config_of_another_model_is_refused(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json"):
        find_base(str(folder))


@pytest.mark.parametrize(("name", "size"), [("gpt_layers", 10**9), ("gpt_n_model_channels", 10**6), ("gpt_n_heads", 0)])
def test_config_with_absurd_sizes_is_refused_before_a_model_is_made(folder, name, size):
    config = json.loads((folder / "config.json").read_text())
    config["model_args"][name] = size
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=f"{name} {size}, not 1 to"):
        find_base(str(folder))


def test_a_missing_base_says_how_to_get_it(tmp_path):
    with pytest.raises(UserError) as error:
        find_base("v2.0.2")
    assert error.value.fix == "download it first: python -m utils.cli.base download v2.0.2"
    with pytest.raises(UserError, match="no base"):
        find_base(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"no model\.safetensors or model\.pth"):
        find_base(str(tmp_path))


def test_fingerprint_follows_weights_and_scale(folder):
    base = Base(folder)
    before = fingerprint(base.dvae, base.mel_stats())
    assert before == fingerprint(base.dvae, base.mel_stats())
    assert before != fingerprint(base.dvae, base.mel_stats() + 1)


def test_a_full_disk_is_an_os_error_whichever_library_writes(tmp_path):
    """On a real full file system: the libraries say it each in their own way."""
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        tensor = torch.zeros(1_000_000)
        for write, content in ((write_weights, {"a": tensor}), (write_pickle, tensor)):
            with pytest.raises(OSError) as error:
                write(tmp_path / "file", content)
            assert error.value.errno == errno.ENOSPC
            (tmp_path / "file").unlink(missing_ok=True)
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_weights_can_be_read_by_whom_the_system_lets_read(tmp_path):
    (tmp_path / "other").touch()
    write_weights(tmp_path / "weights", {"a": torch.zeros(1)})
    assert (tmp_path / "weights").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"trunk_blocks": 4}, "trunk_blocks needs harmonic_source"),
        ({"vocoder_blocks": 4}, "vocoder_blocks needs trunk_blocks"),
        ({"vocoder_blocks": 4, "trunk_blocks": 2, "harmonic_source": True}, "goes without harmonic_source"),
        ({"trunk_blocks": "4", "harmonic_source": True}, "trunk_blocks is '4'"),
        ({"initial_channels": 0}, "initial_channels is 0"),
        ({"speaker_layers": [3, 4]}, r"speaker_layers is \[3, 4\]"),
        ({"wings": 2}, "wings is not known here"),
        ([128], "it is no group of settings"),
    ],
)
def test_a_decoder_of_sizes_that_cannot_be_is_refused(folder, own, said):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"studio_decoder": own}), encoding="utf-8")
    with pytest.raises(UserError, match=said):
        load_decoder(Base(folder))


def test_models_are_loaded_without_drawing_random_weights():
    base, before = find_base("tiny"), torch.get_rng_state()
    load_gpt(base)
    load_decoder(base)
    assert torch.equal(torch.get_rng_state(), before)
    with NoRandomWeights():
        norm = torch.nn.LayerNorm(3)
    assert torch.equal(norm.weight, torch.ones(3)), "constants are filled in"
