"""Compiled blocks: few graphs for ragged batches, one shape for CUDA graphs, and none that runs uncompiled unsaid."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.clip_tables import listed
from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.bases.loading import load_gpt
from utils.config import TrainConfig
from utils.model.attention import varlen_attention
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.packing import Layout
from utils.training.data.batches import Batch
from utils.training.data.clip_list import TrainingClip
from utils.training.data.load import TrainingData
from utils.training.data.loaders import Loaders
from utils.training.switches.compile import compile_blocks
from utils.training.switches.optim import make_accelerator
from utils.training.switches.optimizer import resolve
from utils.training.switches.record import compile_counts
from utils.training_optimizations import TrainingOptimizer

SECONDS = 7.0


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "a.wav"
    write_wav(path, speech(SECONDS, seed=1), 22_050)
    return path


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks are traced and guarded as ever, and what was traced runs as it is: no compiler is needed."""
    compile_module = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda block, mode: compile_module(block, backend="eager"))
    with torch._dynamo.config.patch(recompile_limit=8, fail_on_recompile_limit_hit=False):
        yield
    torch._dynamo.reset()


def make_loaders(recording: Path, num_clips: int, *, mode: str, layout: Layout = "packed", epochs: int = 10) -> Loaders:
    """Batches of four as a GPU would have them; all clips are of one recording, and have lengths of their own."""
    random = np.random.default_rng(2)

    def clip() -> TrainingClip:
        return TrainingClip(
            audio=recording,
            num_samples=round(SECONDS * 22_050),
            is_native=True,
            tokens=torch.arange(21, 21 + int(random.integers(5, 60)), dtype=torch.int32),
            codes=np.arange(random.integers(20, 250), dtype=np.int16),
        )

    config = TrainConfig(
        project="a",
        batch_size=4,
        eval_batch_size=4,
        num_epochs=epochs,
        num_workers=0,
        device="cpu",
        conditioning="other",
    )
    data = TrainingData(
        train=listed([clip() for _ in range(num_clips)]), evaluate=listed([clip() for _ in range(12)]), dropped=[]
    )
    switches = replace(resolve(config, torch.device("cpu")), effective=replace(config, compile=mode), layout=layout)
    return Loaders(config, find_base("tiny"), data, make_accelerator("cpu"), switches)


def make_compiled() -> XttsGpt:
    gpt = load_gpt(find_base("tiny"), ForwardOptions(sdpa=True, dropout=0.0)).train()
    compile_blocks(gpt, "default")
    return gpt


def forward(gpt: XttsGpt, batch: Batch) -> torch.Tensor:
    return gpt(batch.packed, torch.zeros(len(batch.conditioning_audio), 80, 20)).codes


def shape(batch: Batch) -> tuple:
    """All that compiled blocks are given, but for the numbers."""
    packed = batch.packed
    return packed.gather_indices.shape, packed.cu_seqlens.shape, packed.longest_clip, batch.conditioning_audio.shape


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["packed", "rows"])
def test_ragged_batches_are_compiled_for_once(traced, monkeypatch, recording, layout):
    def attend(q, k, v, *, cu_seqlens, max_seqlen, kernel):
        """What is compiled for CUDA's, which a CPU has not: it takes the same, and the numbers do not matter."""
        return v + cu_seqlens.sum() * max_seqlen

    monkeypatch.setattr("utils.model.attention.flash_attention", attend)
    loaders, gpt = make_loaders(recording, 24, mode="default", layout=layout), make_compiled()
    if layout == "packed":
        gpt._attend = lambda batch, dropout: partial(
            varlen_attention, cu_seqlens=batch.cu_seqlens, max_seqlen=batch.max_seqlen
        )
    before = compile_counts()[0]
    for epoch in range(2):
        for batch in loaders.train(epoch, 0):
            forward(gpt, batch)
    # Of a block for the first length, then for any; of the conditioning encoder's, whose inputs are all alike.
    assert compile_counts()[0] - before <= 3
    before = compile_counts()[0]
    gpt.eval()
    with torch.no_grad():
        for batch in loaders.evaluation:
            forward(gpt, batch)
    assert compile_counts()[0] - before <= 2


def test_a_shape_beyond_the_limit_is_told(traced, monkeypatch, recording):
    """Dynamo by itself runs it uncompiled."""
    monkeypatch.setattr("utils.training.switches.compile.MAX_SHAPES", 1)
    optimizations, gpt = TrainingOptimizer(device="cpu"), make_compiled()
    optimizations.switches.effective = replace(optimizations.switches.effective, compile="default")
    for batch in make_loaders(recording, 24, mode="default", layout="rows").train(0, 0):
        optimizations.attempt(gpt, partial(forward, gpt, batch), lambda: None)
    assert "more than 1 " in optimizations.switches.off["compile"]


@pytest.mark.parametrize("layout", ["packed", "rows"])
def test_cuda_graphs_meet_one_shape_in_all_epochs(monkeypatch, recording, layout):
    # Large steps hide how far epochs differ.
    monkeypatch.setattr("utils.training.data.loaders.SHAPE_STEP", 32)
    # Some batches have three clips.
    loaders = make_loaders(recording, 54, mode="reduce-overhead", layout=layout)
    assert len({shape(batch) for epoch in range(10) for batch in loaders.train(epoch, 0)}) == 1
    assert len({shape(batch) for batch in loaders.evaluation}) == 1


def test_a_batch_that_was_filled_up_is_split_into_its_clips(recording):
    loaders = make_loaders(recording, 54, mode="reduce-overhead", epochs=1)
    whole = next(batch for batch in loaders.train(0, 0) if len(batch.positions) == 3)
    parts = loaders.splitter(training=True)(whole, 1)
    assert [part.positions for part in parts] == [[place] for place in whole.positions]
    assert torch.equal(torch.cat([part.conditioning_audio for part in parts]), whole.conditioning_audio[:3])
    assert len(whole.conditioning_audio) == 4 and not whole.conditioning_audio[3].any()
    assert {part.packed.max_seqlen for part in parts} == {whole.packed.max_seqlen}
