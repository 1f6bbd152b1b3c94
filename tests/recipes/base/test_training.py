"""Stages of the base: steps resume and pause, codes fit the engine, word times follow the phonemes."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recipes.base import clips, codec, corpus, gpt, training
from recipes.base.clips import divide, word_times
from recipes.base.codec import CODES, FRAMES_PER_CODE, NUM_PHONEMES, Codec, decoder_frames
from recipes.base.corpus import PAUSE, Clip, speak_shard
from recipes.base.speech import SpokenClip
from recipes.base.stage import StageConfig
from recipes.base.training import train_steps
from tests.recipes.base.test_corpus import SineTeacher
from utils.codec_training.dvae import init_codebook, save_dvae
from utils.dataset.storage.manifest import read_manifest
from utils.model.dvae import build_dvae, needed_tensors
from utils.project.paths import Project


def test_steps_resume_from_the_last_checkpoint_and_end_as_if_undisturbed(tmp_path: Path, monkeypatch) -> None:
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


def test_nothing_is_computed_while_the_pause_file_exists(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(corpus.time, "sleep", lambda seconds: slept.set() or (tmp_path / PAUSE).unlink())
    slept = threading.Event()
    corpus.wait_while_paused(tmp_path)
    assert not slept.is_set()
    (tmp_path / PAUSE).touch()
    corpus.wait_while_paused(tmp_path)
    assert slept.is_set()


def test_codes_come_from_the_codebook_and_the_engine_reads_the_dvae() -> None:
    torch.manual_seed(0)
    model, mel = Codec(), torch.randn(4, 80, CODES * FRAMES_PER_CODE)
    init_codebook(model.dvae, torch.randn(48, 80, CODES * FRAMES_PER_CODE), np.random.default_rng(0), rounds=1)
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


def test_the_parts_of_a_code_follow_each_other() -> None:
    x = torch.tensor([[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]]])  # two classes by two parts, two codes
    assert codec._spread(x, 2).tolist() == [[[1, 2, 5, 6], [3, 4, 7, 8]]]


def test_ctc_prefers_the_phonemes_that_were_said() -> None:
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
def test_phonemes_are_divided_among_words(spoken: list[int], words: list[list[int]], starts: list[int]) -> None:
    assert divide(spoken, words) == starts


def test_word_times_are_those_of_each_words_first_phoneme() -> None:
    def clip(text: str, tokens: tuple[int, ...]) -> SpokenClip:
        ends = np.arange(1, len(tokens) + 1) * 0.1
        sizes = {"shard": 0, "start": 0, "num_samples": 1, "first_frame": 0, "num_frames": 1}
        return SpokenClip(speaker="one", text=text, tokens=tokens, ends=ends, **sizes)

    alone = {"one": [50, 51], "of": [60], "two,": [70, 71, 3]}.__getitem__
    apart = clip("one of two,", (0, 50, 51, 16, 60, 16, 70, 71, 3, 0))
    assert word_times(apart, alone) == pytest.approx([0.1, 0.4, 0.6])
    joined = clip("one of two,", (0, 50, 51, 16, 60, 70, 71, 3, 0))
    assert word_times(joined, alone) == pytest.approx([0.1, 0.4, 0.5])


def test_clips_and_gpt_stages_train_a_base_that_follows_word_times(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "corpus").mkdir()
    for name, count in (("training", 8), ("choosing", 2)):
        texts = [f"{word} water under {word} bridges." for word in ("Still", "Cold", "Deep", "Blue") * 2][:count]
        spoken = [Clip(speaker="one", voice={"one": 1.0}, text=text) for text in texts]
        speak_shard(SineTeacher(), spoken, tmp_path / "corpus" / f"{name}_0000.json")  # type: ignore[arg-type]
    monkeypatch.setattr(clips, "Teacher", lambda voices: SineTeacher())
    clips.write_clips(clips.ClipsConfig(work=tmp_path, sets=("training", "choosing")))
    rows = read_manifest(tmp_path / "clips" / "metadata_training.csv")
    assert len(rows) == 8 and all(len(row.word_times) == 5 for row in rows)
    save_dvae(tmp_path / "dvae", Codec().dvae, torch.ones(80))
    for name, value in (("LAYERS", 6), ("WIDTH", 32), ("HEADS", 2), ("NUM_EPOCHS", 1), ("BATCH_SIZE", 4)):
        monkeypatch.setattr(gpt, name, value)
    gpt.train(StageConfig(work=tmp_path))
    (run,) = Project(name="gpt", output=tmp_path).runs.iterdir()
    steps = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    losses = [step for step in steps if step["kind"] == "step"]
    assert len(losses) == 2 and all(step["loss_reading"] > 0 for step in losses)
    gpt.train(StageConfig(work=tmp_path))
    assert len(list(Project(name="gpt", output=tmp_path).runs.iterdir())) == 1, "the run that is done is kept"
