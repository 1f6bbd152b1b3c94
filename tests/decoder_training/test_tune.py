"""A decoder learns a voice, trunk or whole, and stays the base's own where it got no better."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from recipes.base.decoder import SpectralDiscriminator
from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.bases.decoder import load_decoder
from utils.bases.find import find_base
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.decoder_training import tune as module
from utils.decoder_training.tune import HIFIGAN_STEPS, TunedDecoder, tune_decoder
from utils.errors import UserError
from utils.inference.batch import SpeechBatch
from utils.inference.engine import Synthesizer
from utils.inference.own_decoder import fit_steps, own_decoder
from utils.model.decoder.build import build_decoder
from utils.model.gpt import XttsGpt
from utils.model.weights import DECODER_PREFIX, GPT_PREFIX, State, part
from utils.options import CODE_SAMPLES, DATASET_RATE
from utils.project.paths import Project, assets_folder
from utils.runs.layout import REFERENCE_FILE


@pytest.fixture(scope="module")
def starter() -> Base:
    return find_base("starter")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Five clips of the demo voice as a dataset, and one as the run's reference."""
    project = Project(name="own", output=tmp_path)
    project.dataset.mkdir(parents=True)
    rows = (assets_folder() / "demo_voice" / "metadata.csv").read_text(encoding="utf-8").splitlines()
    pairs = [row.split("|")[:2] for row in rows if ".flac|" in row][:5]
    clips = [Clip(audio=assets_folder() / "demo_voice" / name, text=text, speaker="demo") for name, text in pairs]
    write_manifest(project.train_csv, clips[:4])
    write_manifest(project.eval_csv, clips[4:])
    return project


def _ignored(phase: str, done: int, total: int | None) -> None:
    """No progress is reported."""


def _asked(**settings) -> ExportConfig:
    return ExportConfig(project="own", **settings)


def _export(project: Project, base: Base, run: Path, **asked) -> tuple[State, dict]:
    reference = read_manifest(project.train_csv)[0].audio if project.train_csv.is_file() else None
    if reference is not None:
        (run / REFERENCE_FILE).write_bytes(reference.read_bytes())
    settings = TrainConfig(project=project.name, output=project.output, language="en")
    gpt, decoder = part(base.state(), GPT_PREFIX), part(base.state(), DECODER_PREFIX)
    return own_decoder(run, base, gpt, decoder, project, settings, _asked(**asked), lambda phase, done, total: None)


@pytest.fixture
def quick(starter: Base, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Small batches, and as many steps as a test says where the user asks for none."""

    def set_up(steps: int, **changes) -> None:
        settings = replace(module.TRUNK.settings, trunk_batch_size=8, warmup_steps=2, **changes)
        monkeypatch.setattr(module, "TRUNK", module.TRUNK._replace(settings=settings))
        monkeypatch.setitem(starter.about["training"], "decoder_steps", steps)

    return set_up


def test_a_few_steps_bring_the_voice_nearer_and_touch_nothing_else(starter, project, tmp_path, quick):
    quick(12)
    weights, about = _export(project, starter, tmp_path)
    facts, own = about["decoder"], part(starter.state(), DECODER_PREFIX)
    assert facts["steps"] == 12 and facts["kept"] == "the fitted one"
    assert facts["mel_distance_after"] < 0.95 * facts["mel_distance_before"]
    assert facts["similarity_after"] > facts["similarity_before"]
    changed = {name for name, tensor in weights.items() if not torch.equal(tensor, own[name])}
    assert changed and all(name.startswith("waveform_decoder.trunk.") for name in changed)
    assert {tensor.dtype for tensor in weights.values()} == {tensor.dtype for tensor in own.values()}


@pytest.mark.slow
def test_the_steps_are_those_without_a_trial(starter, project, tmp_path, quick, monkeypatch):
    quick(12)
    weights, _ = _export(project, starter, tmp_path)
    monkeypatch.setattr(module, "TRIAL_STEPS", 12)
    whole, _ = _export(project, starter, tmp_path)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in weights.items())


@pytest.mark.slow
def test_a_decoder_that_got_worse_is_not_kept(starter, project, tmp_path, quick):
    quick(2, learning_rate=10.0)
    weights, about = _export(project, starter, tmp_path)
    assert "no better" in about["decoder"]["kept"]
    own = part(starter.state(), DECODER_PREFIX)
    assert all(torch.equal(tensor, own[name]) for name, tensor in weights.items())


@pytest.mark.slow
def test_a_decoder_that_ten_steps_do_not_help_learns_no_further(starter, project, tmp_path, quick):
    quick(500, learning_rate=1e-9)
    weights, about = _export(project, starter, tmp_path)
    assert about["decoder"]["steps"] == 10
    assert about["decoder"]["kept"] == (
        "the base's own: after 10 steps the fitted one was less than 5% nearer to the recordings"
    )
    own = part(starter.state(), DECODER_PREFIX)
    assert all(torch.equal(tensor, own[name]) for name, tensor in weights.items())


def test_a_fitted_trunk_goes_part_of_the_way_and_the_rest_stays(starter):
    decoder = load_decoder(starter)
    before = {name: one.clone() for name, one in decoder.state_dict().items()}
    learned = {name: one for name, one in before.items() if name.startswith(module.TRUNK.part)}
    generator = decoder.waveform_decoder
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter.add_(1)
    module._blend(decoder, learned)
    moved = {
        f"waveform_decoder.{name}": (one - before[f"waveform_decoder.{name}"]).mean().item()
        for name, one in generator.named_parameters()
    }
    shares = {name: 0.7 if name in learned else 1.0 for name in moved}
    assert moved == pytest.approx(shares, abs=1e-3) and set(shares.values()) == {0.7, 1.0}


def test_nearer_spectra_of_a_stranger_are_no_gain():
    fidelity = {"mel_distance": 1.0, "similarity": 0.7}
    facts = {"part": "", "weights": {}, "steps": 1, "before": fidelity}
    assert TunedDecoder(after={"mel_distance": 0.9, "similarity": 0.66}, **facts).is_better
    assert not TunedDecoder(after={"mel_distance": 0.9, "similarity": 0.64}, **facts).is_better
    assert not TunedDecoder(after={"mel_distance": 1.0, "similarity": 0.9}, **facts).is_better


def test_without_its_clips_the_decoder_stays_as_it_is_and_says_so(starter, project, tmp_path, quick):
    quick(2)
    project.eval_csv.unlink()
    weights, about = _export(project, starter, tmp_path)
    assert about == {"decoder": {"steps": 0, "kept": "the base's own: the dataset is gone"}}
    assert weights.keys() == part(starter.state(), DECODER_PREFIX).keys()
    with pytest.raises(UserError, match="the dataset is gone"):
        _export(project, starter, tmp_path, tune_decoder=True)


def test_several_speakers_are_not_learned_as_one(starter, project, tmp_path, quick):
    quick(2)
    clips = read_manifest(project.train_csv)
    write_manifest(project.train_csv, [*clips, replace(clips[0], speaker="another")])
    _, about = _export(project, starter, tmp_path)
    assert about["decoder"]["kept"] == "the base's own: the clips are of 2 speakers"


@pytest.mark.slow
def test_clips_that_the_model_cannot_read_are_left_out(starter, project, tmp_path, quick):
    quick(1)
    synthesizer, clips = Synthesizer(starter), read_manifest(project.train_csv)
    voice = synthesizer.voice(clips[0].audio)
    endless = replace(clips[0], text="word " * 400)
    gone, longest = replace(clips[0], audio=tmp_path / "gone.wav"), replace(clips[0], audio=tmp_path / "longest.wav")
    # As long as the model's position table, which also holds start and stop.
    samples = synthesizer.gpt.shape.max_audio_tokens * CODE_SAMPLES
    write_wav(longest.audio, 0.01 * torch.randn(1, samples), DATASET_RATE)
    unusable = [endless, gone, longest]
    arguments = {"language": "en", "steps": 1, "folder": tmp_path / "examples"}
    for evaluated in (unusable, []):
        with pytest.raises(UserError, match="no clip"):
            tune_decoder(starter, synthesizer.gpt, voice, clips[:1], evaluated, **arguments)
    assert tune_decoder(starter, synthesizer.gpt, voice, [*unusable, *clips], clips[:1], **arguments).steps == 1
    assert not (tmp_path / "examples").exists()


def test_how_many_steps_are_asked_for(starter, monkeypatch):
    tiny = find_base("tiny")
    assert fit_steps(starter, _asked()) == fit_steps(starter, _asked(tune_decoder=True)) == 300
    assert (
        fit_steps(starter, _asked(decoder_steps=7))
        == fit_steps(starter, _asked(tune_decoder=True, decoder_steps=7))
        == 7
    )
    for none in ({"tune_decoder": False}, {"decoder_steps": 0}, {"tune_decoder": False, "decoder_steps": 0}):
        assert fit_steps(starter, _asked(**none)) == 0
    assert fit_steps(tiny, _asked()) == 0
    with pytest.raises(UserError, match="does not speak"):
        fit_steps(tiny, _asked(tune_decoder=True))
    monkeypatch.setattr(Base, "can_speak", True)
    assert fit_steps(tiny, _asked(tune_decoder=True)) == HIFIGAN_STEPS
    for wrong, words in (
        ({"decoder_steps": -1}, "decoder_steps is -1"),
        ({"tune_decoder": True, "decoder_steps": 0}, "in 0 steps"),
        ({"tune_decoder": False, "decoder_steps": 5}, "shall not be fitted, in 5 steps"),
    ):
        with pytest.raises(UserError, match=words):
            fit_steps(starter, _asked(**wrong))


@pytest.mark.slow
@pytest.mark.parametrize("critic", ["spectral", "hifigan"])
def test_stocks_decoder_learns_as_a_whole_and_goes_on_after_a_kill(project, tmp_path, monkeypatch, critic):
    """With the tiny base's random decoder: what is kept is not asked here, but that all of it can be trained."""
    small = replace(
        module.HIFIGAN.settings,
        batch_size=1,
        crop_latents=2,
        margin_latents=1,
        warmup_steps=1,
        checkpoint_every=1,
    )
    monkeypatch.setattr(module, "HIFIGAN", module.HIFIGAN._replace(settings=small))
    if critic == "spectral":
        monkeypatch.setattr(module, "HifiganCritic", SpectralDiscriminator)
    monkeypatch.setattr(module.TunedDecoder, "is_better", True)
    monkeypatch.setattr(module, "clip_fidelity", lambda decoder, clips: {"mel_distance": 1.0, "similarity": 1.0})
    tiny = find_base("tiny")
    synthesizer, clips = Synthesizer(tiny), read_manifest(project.train_csv)[:2]
    voice = synthesizer.voice(clips[0].audio)
    clips = [replace(clip, text="No.") for clip in clips]
    folder = tmp_path / "examples"
    arguments = {"language": "en", "steps": 2, "folder": folder}

    def fit(progress=None) -> TunedDecoder:
        return tune_decoder(tiny, synthesizer.gpt, voice, clips, clips[:1], progress=progress, **arguments)

    def killed(phase: str, done: int, total: int | None) -> None:
        if phase == "fitting the decoder" and done == 2:
            raise KeyboardInterrupt

    at_once = fit()
    with pytest.raises(KeyboardInterrupt):
        fit(killed)
    assert (folder / "decoder_training.pt").is_file()
    steps = []
    resumed = fit(lambda phase, done, total: steps.append(done) if phase == "fitting the decoder" else None)
    assert steps == [2] and not folder.exists()
    own = {name: tensor for name, tensor in part(tiny.state(), DECODER_PREFIX).items() if name.startswith(resumed.part)}
    assert resumed.weights.keys() == own.keys() == at_once.weights.keys()
    assert all(torch.equal(resumed.weights[name], at_once.weights[name]) for name in own)
    assert all(not torch.equal(resumed.weights[name], own[name].float()) for name in own if "weight" in name)
    # coqui-tts's own class takes them under its own names, none missing and none beside.
    stock = build_decoder(tiny.decoder_shape())
    stock.load_state_dict(part(tiny.state(), DECODER_PREFIX) | resumed.weights)
    assert type(stock).__module__.startswith("TTS.")


def synthesizers() -> set[int]:
    """Those that are alive, in this test or another."""
    gc.collect()
    # By type: isinstance asks a weak proxy's object, which may be gone.
    return {id(one) for one in gc.get_objects() if issubclass(type(one), Synthesizer | SpeechBatch)}


@pytest.mark.slow
def test_on_a_gpu_the_fit_has_the_memory_for_itself(project, tmp_path, monkeypatch):
    """No synthesizer, with its caches and prepared weights, is alive beside it, and the GPT has left the GPU."""
    moved: list[XttsGpt] = []

    def train_nothing(*_: object, **__: object) -> None:
        assert moved and not synthesizers() - before

    before, same = synthesizers(), {"mel_distance": 1.0, "similarity": 1.0}
    monkeypatch.setattr(module, "clip_fidelity", lambda decoder, clips: same)
    monkeypatch.setattr("utils.inference.own_decoder.fit_steps", lambda base, config: 1)
    monkeypatch.setattr(module, "train_decoder", train_nothing)
    monkeypatch.setattr(XttsGpt, "cpu", lambda gpt: moved.append(gpt))
    _, facts = _export(project, find_base("tiny"), tmp_path, decoder_steps=1)
    assert facts["decoder"]["steps"] == 1


@pytest.mark.parametrize("native", [False, True])
def test_the_fit_computes_in_bf16_only_where_the_gpu_has_units_for_it(native, monkeypatch):
    """PyTorch says of Turing that it supports bf16, which it emulates."""
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation=True: including_emulation or native)
    assert module._settings(module.HIFIGAN, 10, torch.device("cuda")).bf16 == native
