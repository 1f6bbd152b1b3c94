"""Stages of the base: steps resume and pause, codes fit the engine, word times follow the phonemes."""

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recipes.base import codec, corpus, decoder, gpt, package, speaker_encoder, training
from recipes.base.alignment import divide, tokens_read, word_places
from recipes.base.codec import CODES, FRAMES_PER_CODE, NUM_PHONEMES, Codec, decoder_frames
from recipes.base.corpus import PAUSE, Clip, speak_shard
from recipes.base.package import PackageConfig
from recipes.base.speaker_encoder import SpeakerConfig, separation
from recipes.base.speech import Speech, SpokenClip
from recipes.base.stage import StageConfig
from recipes.base.training import save_result, train_steps
from tests import sounds
from tests.recipes.base.test_corpus import SineTeacher
from utils.audio.resample import resample
from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.bases.find import check_files
from utils.dataset.storage.manifest import read_manifest
from utils.inference.engine import Synthesizer
from utils.model.decoder.vocos import SpectralVocoder
from utils.model.dvae import CodeEncoder, build_dvae, needed_tensors
from utils.model.gpt import XttsGpt
from utils.model.mel import conditioning_mel
from utils.model.packing import IGNORED, STOPS
from utils.model.speaker_encoder import build_speaker_encoder
from utils.model.weights import read_weights
from utils.options import DATASET_RATE


def test_steps_resume_from_the_last_checkpoint_and_end_as_if_undisturbed(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_EVERY", 2)

    def run(work: Path, *, breaks_at: int | None = None) -> tuple[list[int], torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        optimizer, numbers = torch.optim.AdamW(model.parameters(), lr=0.1), list[int]()

        def step(number: int) -> dict[str, float]:
            if number == breaks_at:
                raise RuntimeError
            numbers.append(number)
            loss = model(torch.randn(4, 2)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return {"loss": loss.item()}

        train_steps("stage", work, 6, {"model": model, "optimizer": optimizer}, step)
        return numbers, model.weight.detach().clone()

    whole, weight = run(tmp_path / "whole")
    with pytest.raises(RuntimeError):
        run(tmp_path / "cut", breaks_at=5)
    rest, resumed = run(tmp_path / "cut")
    assert (whole, rest) == ([0, 1, 2, 3, 4, 5], [4, 5])
    assert torch.equal(weight, resumed)


def test_nothing_is_computed_while_the_pause_file_exists(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus.time, "sleep", lambda seconds: slept.set() or (tmp_path / PAUSE).unlink())
    slept = threading.Event()
    corpus.wait_while_paused(tmp_path)
    assert not slept.is_set()
    (tmp_path / PAUSE).touch()
    corpus.wait_while_paused(tmp_path)
    assert slept.is_set()


def test_codes_come_from_the_codebook_and_the_engine_reads_the_dvae():
    torch.manual_seed(0)
    model, mel = Codec(), torch.randn(4, 80, CODES * FRAMES_PER_CODE)
    codec.init_codebook(model.dvae, torch.randn(48, 80, CODES * FRAMES_PER_CODE), np.random.default_rng(0))
    model.eval()
    with torch.no_grad():
        latents, _ = model.latents(mel, quantize=True)
        plain = build_dvae(needed_tensors(model.dvae.state_dict()))
        codes = plain.eval().get_codebook_indices(mel)
    assert codes.shape == (4, CODES)
    assert torch.allclose(latents[0].T, model.dvae.codebook.embed.T[codes[0]], atol=1e-5)
    speaker = model.speaker(mel[:, :, :160])
    assert speaker.shape == (4, codec.SPEAKER_WIDTH, 1)
    assert model.decode(latents, speaker).shape == (4, 80, decoder_frames(latents).shape[2])
    assert model.frame_logits(latents).shape == (4, NUM_PHONEMES, mel.shape[2])


def test_codebook_from_data_uses_what_a_random_one_leaves_dead():
    torch.manual_seed(0)
    dvae, mel = Codec().dvae.eval(), torch.randn(48, 80, CODES * FRAMES_PER_CODE)
    before = len(dvae.get_codebook_indices(mel).unique())
    codec.init_codebook(dvae, mel, np.random.default_rng(0))
    assert before < 300 and len(dvae.get_codebook_indices(mel).unique()) > 800


def test_dead_codes_move_onto_encoder_outputs_and_live_ones_stay():
    torch.manual_seed(0)
    dvae, mel = Codec().dvae, torch.randn(4, 80, CODES * FRAMES_PER_CODE)
    dvae.codebook.cluster_size.fill_(1.0)
    dvae.codebook.cluster_size[5:9] = 0.0
    before = dvae.codebook.embed.clone()
    codec.revive_dead_codes(dvae, mel, np.random.default_rng(1))
    assert (dvae.codebook.embed != before).any(0).nonzero().flatten().tolist() == [5, 6, 7, 8]
    outputs = dvae.encoder(mel).transpose(1, 2).flatten(0, 1)
    assert torch.cdist(dvae.codebook.embed[:, 5:9].T, outputs).min(1).values.max() < 1e-3
    assert (dvae.codebook.cluster_size[5:9] > 0).all()


def test_the_parts_of_a_code_follow_each_other():
    x = torch.tensor([[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]]])  # two classes by two parts, two codes
    assert codec._spread(x, 2).tolist() == [[[1, 2, 5, 6], [3, 4, 7, 8]]]


def test_ctc_prefers_the_phonemes_that_were_said():
    phonemes = torch.tensor([[0, 0, 50, 50, 156, 60, 60, 60, 16, 70, 70, 0]])
    logits = torch.full((1, NUM_PHONEMES, 12), -5.0)
    logits[0, phonemes[0], torch.arange(12)] = 5.0
    logits[0, 0, [4, 8]] = 10.0  # marks are no sounds: blank
    wrong = logits.roll(1, dims=1)
    assert codec._ctc_loss(logits, phonemes) < 0.5 < 2 < codec._ctc_loss(wrong, phonemes)


@pytest.mark.parametrize(
    ("spoken", "words", "starts"),
    [
        ([50, 51, 60, 61, 62], [[50, 51], [60, 61, 62]], [0, 2]),
        ([50, 60, 61, 62], [[50, 51], [60, 61, 62]], [0, 1]),
        ([50, 51, 60, 99, 62, 70], [[50, 51], [60, 61, 62], [70]], [0, 2, 5]),
        ([50] * 40, [[50], [50]], []),
    ],
)
def test_phonemes_are_divided_among_words(spoken, words, starts):
    assert divide(spoken, words) == starts


def test_words_begin_with_their_first_phoneme_and_letters_pass_evenly_with_phonemes():
    def clip(text: str, tokens: tuple[int, ...]) -> SpokenClip:
        ends = np.arange(1, len(tokens) + 1) * 0.1
        sizes = {"shard": 0, "start": 0, "num_samples": 1, "first_frame": 0, "num_frames": 1}
        return SpokenClip(speaker="one", text=text, tokens=tokens, ends=ends, **sizes)

    alone = {"one": [50, 51], "of": [60], "two,": [70, 71, 3]}.__getitem__
    apart = clip("one of two,", (0, 50, 51, 16, 60, 16, 70, 71, 3, 0))
    assert word_places(apart, alone) == [1, 4, 6]
    joined = clip("one of two,", (0, 50, 51, 16, 60, 70, 71, 3, 0))
    assert word_places(joined, alone) == [1, 4, 5]
    # The language's token, three letters and a space, two and a space, three and the comma.
    read = tokens_read(apart, [1, 4, 6], [1, 5, 8, 12], np.array([0.0, 0.1, 0.2, 0.4, 0.6, 0.7, 0.99]))
    assert read == pytest.approx([1, 1, 1 + 4 / 3, 5, 8, 10, 12], abs=1e-5)


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A corpus of sines by two speakers, and an untrained codec, vocoder and speaker encoder of the real sizes."""
    work = tmp_path_factory.mktemp("base")
    (work / "corpus").mkdir()
    texts = [f"{word} water under {word} bridges." for word in ("Still", "Cold", "Deep", "Blue", "Old", "Far") * 2]
    for name, count in (("training", 12), ("choosing", 12), ("fine_tuning", 4)):
        names = ("bf_lily",) if name == "fine_tuning" else (*corpus.ANCHORS, *corpus.HELD_OUT["choosing"])
        spoken = [
            Clip(speaker=names[number % len(names)], voice={"one": 1.0}, text=text)
            for number, text in enumerate(texts[:count] * 2)
        ]
        speak_shard(SineTeacher(), spoken, work / "corpus" / f"{name}_0000.json")  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Codec()
        codec.init_codebook(model.dvae, torch.randn(48, 80, CODES * FRAMES_PER_CODE), np.random.default_rng(0))
        speech = Speech(work, "training")
        codec.mel_scale(work / "codec", speech)
        save_result(work / "codec" / "codec.safetensors", model)
        (work / "vocoder").mkdir()
        save_result(work / "vocoder" / "vocoder.safetensors", SpectralVocoder())
    (work / "real").mkdir()
    for number in range(2):
        write_wav(work / "real" / f"{number}.wav", sounds.speech(2.0, seed=number), DATASET_RATE)
    return work


@pytest.fixture(scope="module")
def trained(work) -> Path:
    """The same after two steps of each later stage, with a small GPT."""
    sizes: dict[Any, dict[str, Any]] = {
        gpt: {"STEPS": 2, "GROUPS": 2, "LAYERS": 6, "WIDTH": 64, "HEADS": 2, "tokens_of": SineTeacher().tokens},
        speaker_encoder: {"STEPS": 2, "PAIRS": 4},
        decoder: {"NUM_CLIPS": 8, "judge": lambda *_: None},
        package: {
            "judge": lambda *_: None,
        },
    }
    few = {"trunk_steps": 2, "steps": 1, "batch_size": 1, "trunk_batch_size": 2, "crop_latents": 6}
    sizes[decoder]["SETTINGS"] = dataclasses.replace(decoder.SETTINGS, **few)
    sizes[decoder]["SHAPE"] = dataclasses.replace(decoder.SHAPE, latent_width=64)
    with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng(devices=[]):
        for module, values in sizes.items():
            for name, value in values.items():
                patch.setattr(module, name, value)
        gpt.train(StageConfig(work=work))
        speaker_encoder.train(SpeakerConfig(work=work, real=(work / "real",)))
        decoder.train(StageConfig(work=work))
        package.run(PackageConfig(work=work))
        package.write_demo_voice(work / "demo_voice", SineTeacher())  # type: ignore[arg-type]
    return work


def test_the_gpt_learns_the_engines_losses_and_the_phonemes_of_each_code(work, monkeypatch):
    for name, value in (("GROUPS", 2), ("tokens_of", SineTeacher().tokens)):
        monkeypatch.setattr(gpt, name, value)
    examples = gpt.load_examples(work, "training")
    shape = gpt.gpt_shape(gpt.make_config(6, 64, 2), examples.tokenizer)
    batch, crops, group, phonemes = gpt.draw(examples, shape, np.random.default_rng(0))
    learned = phonemes[:, 0] != IGNORED
    assert learned.sum() == batch.num_code_targets - STOPS * len(group)
    assert (batch.code_targets[learned] < shape.num_codes).all() and set(group.tolist()) == {0, 1}
    first = next(one for one in examples.clips if torch.equal(one.codes, batch.code_targets[: len(one.codes)]))
    assert torch.equal(phonemes[: len(first.codes)], first.phonemes)
    assert len(first.reading) == len(first.codes) and (first.reading.diff() >= 0).all()
    changed = gpt.mistaken(batch.codes, shape, np.random.default_rng(0)) != batch.codes
    share = changed.sum() / (batch.codes < shape.num_codes).sum()
    assert abs(share - gpt.MISTAKEN) < 0.06 and not changed[batch.codes >= shape.num_codes].any()
    torch.manual_seed(0)
    monkeypatch.setattr(gpt, "DROPOUT", 0.0)
    model, mels = gpt.GuidedGpt(shape), conditioning_mel(torch.ones(80))(crops)
    losses, side = model.losses(batch, mels, group, phonemes)
    engine = XttsGpt(shape, model.options)
    engine.load_state_dict(gpt.plain(model).state_dict())
    for ours, theirs in zip(losses, engine.train()(batch, mels[group]), strict=True):
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert losses.reading > 0
    side.backward()
    assert model.text_embedding.weight.grad.abs().sum() > 0, "the side head teaches the whole GPT"


def test_recorded_crops_keep_their_speech_and_differ_in_everything_else():
    torch.manual_seed(0)
    spectra = torch.fft.rfft(torch.randn(8, speaker_encoder.SAMPLES))
    crops = speaker_encoder.recorded(spectra, np.random.default_rng(0))
    again = speaker_encoder.recorded(spectra, np.random.default_rng(0))
    assert torch.equal(crops, again) and crops.shape == (8, speaker_encoder.SAMPLES) and crops.isfinite().all()
    likeness = torch.nn.functional.cosine_similarity(crops, torch.fft.irfft(spectra, speaker_encoder.SAMPLES))
    assert (likeness > 0.2).all() and likeness.std() > 0.01


def test_speeds_are_speakers_of_their_own(work, monkeypatch):
    speech = Speech(work, "training")
    every = sorted([*speaker_encoder.SPEEDS] * len(speech.by_speaker))
    monkeypatch.setattr(speaker_encoder, "PAIRS", len(every))
    wavs = speaker_encoder.draw(speech, np.random.default_rng(1), recorded_share=0)
    # The corpus is one sine of 24 000 / (20 * 2 pi) = 191 Hz; short clips begin again and again.
    first, second = (torch.fft.rfft(wavs * torch.hann_window(wavs.shape[1])).abs().argmax(1) / 2).chunk(2)
    assert torch.allclose(first, second, atol=1.5)
    assert torch.allclose(first.sort().values, 191 * torch.tensor(every), atol=1.5)


def test_the_norm_of_the_speaker_encoder_becomes_a_part_of_its_last_layer():
    torch.manual_seed(0)
    encoder = speaker_encoder.with_norm(build_speaker_encoder(speaker_encoder.SHAPE))
    wavs = torch.randn(8, speaker_encoder.SAMPLES)
    with torch.no_grad():
        encoder(wavs)
        encoder.fc[0].weight.uniform_(0.5, 2)
        encoder.fc[0].bias.normal_()
        expected = encoder.eval()(wavs)
        found = speaker_encoder.without_norm(encoder)(wavs)
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_the_stages_make_a_base_that_the_engine_loads(trained):
    base = Base(trained / "starter")
    check_files(base.folder, base.about, must_list=True)
    assert sum(path.stat().st_size for path in base.folder.iterdir()) < package.MAX_BYTES
    assert "Kokoro-82M" in (base.folder / "NOTICE").read_text() and "phoneme_head" not in str(base.state().keys())
    synthesizer = Synthesizer(base)
    assert list(synthesizer.speakers()) == ["heart", "bella", "michael", "emma", "george", "fable"]
    voice, states = synthesizer.speakers()["heart"], torch.randn(1, 12, 64)
    assert synthesizer.vocoder(states, voice.embedding).isfinite().all()
    gates = json.loads((trained / "speaker" / "gate.json").read_text())
    assert set(gates) == {*corpus.HELD_OUT["choosing"], "real"}
    rows = read_manifest(trained / "demo_voice" / "metadata.csv")
    assert len(rows) == 40 and all(row.speaker == "demo" for row in rows)


@pytest.mark.slow
def test_packed_scores_are_those_of_the_gpt_less_a_constant(trained):
    bias = Base(trained / "starter").state()["gpt.mel_head.bias"].float()
    shift = read_weights(trained / "gpt" / "gpt.safetensors")["mel_head.bias"] - bias
    assert torch.allclose(shift, torch.full_like(shift, package.LOGIT_SHIFT), atol=0.02)


def test_separation_of_known_vectors():
    voice = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1]]))
    same, different, rate = separation(voice, torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    assert same > 0.97 and different < 0.1 and rate == 0.0
    *_, mixed = separation(voice, voice)
    assert mixed >= 0.5


def test_codes_are_those_of_the_engines_encoder(work):
    encoder, speech = codec.Encoder(work), Speech(work, "training")
    engine, clip = CodeEncoder(encoder.codec.dvae.state_dict(), encoder.scale[:, 0]), speech.clips[0]
    wav = resample(speech.sound(clip)[None], corpus.SAMPLE_RATE, DATASET_RATE)
    (theirs,) = engine(wav, [wav.shape[1]])
    ours = encoder(speech, clip)
    assert len(ours) == len(theirs)
    # Mels are kept in half precision, which flips close calls.
    assert (ours == theirs).float().mean() > 0.8


@pytest.mark.slow
def test_mistakes_are_the_gpts_own_codes(trained, monkeypatch):
    for name, value in (("LAYERS", 6), ("WIDTH", 64), ("HEADS", 2)):
        monkeypatch.setattr(gpt, name, value)
    reader, codes = decoder.Reader(trained), torch.arange(1000)
    states = torch.randn(1000, 64)
    torch.manual_seed(0)
    changed = (reader._mistaken(codes, states, 0.25) != codes).float().mean()
    assert 0.15 < changed < 0.35
