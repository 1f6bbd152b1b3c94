"""A model that learned English, then a new script: old losses stay, new letters begin as their sounds, stock agrees.

The new language is English in Georgian letters, so that what the model knows of the sounds can show.
"""

import math
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
import torch

from tests.configs import tiny_run
from tests.decoding import greedy
from tests.inference.stock import load_stock, stock_greedy, stock_sound
from tests.sounds import make_project
from utils.bases.base import Base
from utils.bases.extend import add_language
from utils.bases.grow import EMBEDDING, HEAD, HEAD_BIAS
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.inference.engine import Synthesizer
from utils.inference.export import export_model
from utils.model.weights import State, write_pickle, write_weights
from utils.project.paths import Project
from utils.training.data.load import load_data
from utils.training.data.loaders import Loaders
from utils.training.plan import settle
from utils.training.switches.optim import make_accelerator
from utils.training.switches.optimizer import Optimizations
from utils.training.train import fine_tune, make_trainer
from utils.training.trainer import TEXT_WEIGHT

GEORGIAN = str.maketrans("abcdefghijklmnopqrstuvwxyz", "აბცდეფგჰიჯკლმნოპქრსტუვწხყზ")


@dataclass(frozen=True)
class Loss:
    """Evaluation losses: of the text, of the codes, and what training minimizes."""

    text: float
    codes: float

    @property
    def total(self) -> float:
        return TEXT_WEIGHT * self.text + self.codes


@lru_cache
def loss(base: Path, project: Project, language: str) -> Loss:
    """Of a base as it is, on the project's evaluation clips."""
    config = tiny_run(project, language=language, num_epochs=1, device="cpu")
    settled, accelerator = settle(config, project, Base(base)), make_accelerator("cpu")
    optimizations = Optimizations(settled, accelerator.device)
    data = load_data(settled, project, Base(base), accelerator)
    assert not data.dropped
    trainer = make_trainer(settled, Base(base), accelerator, optimizations, total_steps=1)
    found = trainer.evaluate(Loaders(settled, Base(base), data, accelerator, optimizations.switches).evaluation)
    return Loss(text=found.text, codes=found.codes)


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose ready/ model has learned its clips; they are evaluated on."""
    project = make_project(tmp_path_factory.mktemp("english"), num_train=6, num_eval=2)
    write_manifest(project.eval_csv, read_manifest(project.train_csv)[:4])
    fine_tune(tiny_run(project, num_epochs=6, batch_size=2, sample_text=""))
    export_model(ExportConfig(project=project.name, output=project.output))
    return project


@pytest.fixture(scope="module")
def georgian(english: Project) -> Project:
    """The same sounds, their texts in Georgian letters."""
    project = Project(name="ka", output=english.output)
    project.dataset.mkdir(parents=True)
    for old, new in ((english.train_csv, project.train_csv), (english.eval_csv, project.eval_csv)):
        clips = [
            Clip(audio=clip.audio, text=clip.text.lower().translate(GEORGIAN), speaker=clip.speaker)
            for clip in read_manifest(old)
        ]
        write_manifest(new, clips)
    project.language_file.write_text("ka", encoding="utf-8")
    return project


@pytest.fixture(scope="module")
def extended(english: Project, georgian: Project) -> Base:
    """The fine-tuned model, extended from the texts of the new language."""
    corpus = georgian.folder / "corpus.txt"
    corpus.write_text("\n".join(clip.text for clip in read_manifest(georgian.train_csv)) * 3, encoding="utf-8")
    return add_language(Base(english.ready), "ka", georgian.folder, corpus=corpus, target=60).base


def with_random_rows(base: Base, rows: int, folder: Path, kind: str, *, quiet: bool) -> Path:
    """`base` with new rows as others make them: of torch's own layers, or of stock's model."""
    shutil.copytree(base.folder, folder)
    state, chance = base.state(), torch.Generator().manual_seed(0)
    count, width = state[EMBEDDING][rows:].shape
    if kind == "torch":
        state[EMBEDDING][rows:] = torch.randn(count, width, generator=chance)
        state[HEAD][rows:] = (2 * torch.rand(count, width, generator=chance) - 1) / math.sqrt(width)
    else:
        state[EMBEDDING][rows:] = 0.02 * torch.randn(count, width, generator=chance)
        state[HEAD][rows:] = 0.02 * torch.randn(count, width, generator=chance)
    if not quiet:
        state[HEAD_BIAS][rows:] = 0
    write_weights(folder / "model.safetensors", state)
    return folder


def test_the_loss_of_the_old_language_is_unchanged(english, extended):
    old, new = loss(english.ready, english, "en"), loss(extended.folder, english, "en")
    assert abs(new.codes - old.codes) <= 1e-6
    assert abs(new.total - old.total) <= 1e-6


@pytest.mark.parametrize("kind", ["torch", pytest.param("stock", marks=pytest.mark.slow)])
def test_the_new_language_begins_better_than_with_random_rows(kind, english, georgian, extended, tmp_path):
    rows = Base(english.ready).tokenizer().num_rows
    ours = loss(extended.folder, georgian, "ka")
    quiet = loss(with_random_rows(extended, rows, tmp_path / "quiet", kind, quiet=True), georgian, "ka")
    assert ours.total < quiet.total
    # Rows that are not quiet change what is said of old languages; what the voice learns from is worse all the same.
    loud_rows = with_random_rows(extended, rows, tmp_path / "loud", kind, quiet=False)
    assert ours.codes < loss(loud_rows, georgian, "ka").codes
    assert loss(loud_rows, english, "en").total - loss(english.ready, english, "en").total > 1e-6


def test_a_letter_begins_as_its_sound(english, extended):
    ids = extended.tokenizer()
    table = extended.state()[EMBEDDING]
    new, old = table[ids.token_id("ს")], table[ids.token_id("s")]
    assert torch.cosine_similarity(new, old, dim=0) > 0.999


def test_an_extended_model_is_extended_again_with_both_languages_unchanged(english, georgian, extended, tmp_path):
    corpus = tmp_path / "hy.txt"
    corpus.write_text("Հայաստանը գեղեցիկ երկիր է։\nԲարև ձեզ, ինչպե՞ս եք։\n" * 20, encoding="utf-8")
    again = add_language(extended, "hy", tmp_path, corpus=corpus, target=40).base
    for project, language in ((english, "en"), (georgian, "ka")):
        before, after = loss(extended.folder, project, language), loss(again.folder, project, language)
        assert abs(after.total - before.total) <= 1e-6


@pytest.mark.slow
def test_stock_speaks_the_old_language_the_same_before_and_after(english, extended, tmp_path):
    shutil.copytree(extended.folder, tmp_path / "grown")
    state: State = extended.state()
    write_pickle(tmp_path / "grown" / "model.pth", {"model": state})
    before, after = load_stock(english.ready), load_stock(tmp_path / "grown")
    voice = Synthesizer(Base(english.ready)).default_voice()
    said = []
    for model in (before, after):
        model.gpt.max_gen_mel_tokens = 30
        tokens = model.tokenizer.encode("still waters run deep.", "en")
        codes, latents = stock_greedy(model, tokens, voice, repetition_penalty=2.0)
        said.append((tokens, codes, stock_sound(model, latents, voice)))
    assert said[0][0] == said[1][0]
    assert said[0][1].tolist() == said[1][1].tolist()
    assert (said[0][2] - said[1][2]).abs().max() <= 1e-6


def test_an_extended_model_is_trained_exported_and_loaded_by_stock(georgian, extended):
    config = TrainConfig(project=georgian.name, output=georgian.output, base=str(extended.folder), num_epochs=1)
    fine_tune(config)
    ready = export_model(ExportConfig(project=georgian.name, output=georgian.output))
    stock, ours = load_stock(ready), Synthesizer(Base(ready))
    stock.gpt.max_gen_mel_tokens = 30
    (piece,) = ours.pieces("ტჰე ბირდ.", "ka")
    assert stock.tokenizer.tokenizer.encode("[ka]ტჰე[SPACE]ბირდ.").ids == piece.tokens
    assert stock.gpt.text_embedding.weight.shape[0] == ours.tokenizer.num_rows
    voice = ours.default_voice()
    said, _ = greedy(ours.gpt, voice.latents, piece.tokens, limit=30)
    codes, _ = stock_greedy(stock, piece.tokens, voice, repetition_penalty=2.0)
    assert said.tolist() == codes.tolist()
