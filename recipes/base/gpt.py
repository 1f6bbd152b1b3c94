"""Stage 4: the GPT, trained from nothing; leaves `<work>/gpt/gpt.safetensors` and vocab.json.

It is the engine's GPT with the engine's losses, in steps of its own that learn from shards as the corpus grows: clips
of one speaker share a conditioning crop, which is a third of a step's cost otherwise. What the teacher knows exactly
guides it twice: the guided heads by the letter that each code speaks, and a side head, which is not exported, by the
phonemes of the code that each state is about to say.

    python -m recipes.base.gpt --work FOLDER

Shapes: G groups, B clips, M codes, D model width, V phoneme tokens.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as Vocabulary
from torch import Tensor, nn

from recipes.base import codec
from recipes.base.alignment import tokens_read, word_places
from recipes.base.codec import NUM_PHONEMES
from recipes.base.speech import Speech
from recipes.base.stage import StageConfig, main_of
from recipes.base.teacher import SAMPLE_RATE, tokens_of
from recipes.base.training import REFRESH_EVERY, evaluating, half_precision, save_result, train_steps
from utils.audio.resample import resample
from utils.codec_training.training_state import learning_rate_share, set_learning_rate
from utils.files import replacing, write_atomic
from utils.model.gpt import ForwardOptions, GptLosses, XttsGpt
from utils.model.mel import conditioning_mel
from utils.model.packing import IGNORED, STOPS, PackedBatch, pack
from utils.model.shapes import GptShape, gpt_shape
from utils.model.weights import read_weights
from utils.model.xtts import initialize_gpt
from utils.options import CODE_SAMPLES, DATASET_RATE
from utils.text.tokenizer import Tokenizer
from utils.training.switches.optim import make_optimizer
from utils.training.trainer import CODE_WEIGHT, TEXT_WEIGHT

LAYERS, WIDTH, HEADS = 6, 256, 4
STEPS = 8_500
GROUPS, CLIPS_PER_GROUP = 6, 4
LEARNING_RATE, WARMUP, WEIGHT_DECAY, CLIP_NORM = 8e-4, 300, 0.01, 1.0
READING_WEIGHT, PHONEME_WEIGHT = 0.2, 0.2
DROPOUT, MISTAKEN = 0.1, 0.1
"""Without them the GPT learns the clips by heart: a loss of 0.8 a code in training, 2.2 on unseen sentences."""
PHONEMES_PER_CODE = 2
CROP = (22_050, 44_100)
"""Conditioning crops of 1 to 2 s: the corpus' clips are short, and the encoder's cost grows with the crop."""
LETTERS = "!\"'(),-.:;?abcdefghijklmnopqrstuvwxyz"
MULTIPLE = 128
"""Packed rows are filled up to this: the processor keeps a kernel of each shape of bfloat16 products."""


class Example(NamedTuple):
    """One clip as the GPT learns it."""

    text: Tensor
    """Letters, [L]."""
    codes: Tensor
    """[M]."""
    reading: Tensor
    """The letter that each code speaks, [M] float32; empty where it is not known."""
    phonemes: Tensor
    """The teacher's, [M, 2]."""


class Examples:
    """All clips of a set; those of shards that are completed later are taken up by `refresh`.

    Args:
        speech: the set.
        tokenizer: reads its texts.
        encoder: makes its codes.
    """

    def __init__(self, speech: Speech, tokenizer: Tokenizer, encoder: codec.Encoder) -> None:
        self.speech, self.tokenizer, self.encoder = speech, tokenizer, encoder
        self.clips: list[Example] = []
        self._places: list[list[int]] = []
        self._take_up()

    def refresh(self) -> None:
        """Add shards that were completed since."""
        self.speech.refresh()
        self._take_up()

    def _take_up(self) -> None:
        for clip in self.speech.clips[len(self._places) :]:
            if len(self._places) <= len(self.clips):
                self._places += self._of_shard(clip.shard)
            self.clips.append(self._example(len(self.clips)))

    def _of_shard(self, shard: int) -> list[list[int]]:
        """The places of words in a shard's clips, found once."""
        path = self.speech.work / "features" / f"{self.speech.shards[shard].stem}.places.json"
        if not path.is_file():
            clips = [clip for clip in self.speech.clips if clip.shard == shard]
            write_atomic(path, json.dumps([word_places(clip, tokens_of) for clip in clips]))
        found: list[list[int]] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def _example(self, index: int) -> Example:
        clip, places = self.speech.clips[index], self._places[index]
        codes = self.encoder(self.speech, clip)
        starts = self.tokenizer.word_starts(clip.text, "en")
        known = starts if starts is not None and len(starts) == len(places) + 1 else []
        middles = (np.arange(len(codes)) + 0.5) * CODE_SAMPLES / DATASET_RATE
        frames = clip.phonemes(0, codec.FRAMES_PER_CODE * len(codes)).reshape(len(codes), PHONEMES_PER_CODE, -1)
        return Example(
            text=torch.tensor(self.tokenizer.encode(clip.text, "en")),
            codes=codes,
            reading=torch.from_numpy(tokens_read(clip, places, known, middles)) if known else torch.zeros(0),
            phonemes=torch.from_numpy(frames[:, :, frames.shape[2] // 2].copy()),
        )


class GuidedGpt(XttsGpt):
    """The GPT with a side head: the phonemes of the code that a state is about to say."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__(shape, ForwardOptions(sdpa=True, dropout=DROPOUT, reading_weight=READING_WEIGHT))
        initialize_gpt(self)
        self.phoneme_head = nn.Linear(shape.width, PHONEMES_PER_CODE * NUM_PHONEMES)

    def losses(self, batch: PackedBatch, mels: Tensor, group: Tensor, phonemes: Tensor) -> tuple[GptLosses, Tensor]:
        """The engine's loss sums, and the mean loss of the side head.

        Args:
            batch: of B clips.
            mels: of conditioning crops, [G, 80, F].
            group: which crop each clip is conditioned on, [B].
            phonemes: of each code position, [J, 2].
        """
        rows, reading = self._read(self.embed(batch, self.latents(mels)[group]), batch)
        hidden = self.final_norm(rows).flatten(0, 1)
        said = hidden.index_select(0, batch.code_indices)
        codes = F.cross_entropy(self.mel_head(said).float(), batch.code_targets, ignore_index=IGNORED, reduction="sum")
        text = F.cross_entropy(
            self.text_head(hidden.index_select(0, batch.text_indices)).float(),
            batch.text_targets,
            ignore_index=IGNORED,
            reduction="sum",
        )
        logits = self.phoneme_head(said).float().view(-1, NUM_PHONEMES)
        side = F.cross_entropy(logits, phonemes.flatten(), ignore_index=IGNORED)
        return GptLosses(text=text, codes=codes, reading=reading), side


def train(config: StageConfig) -> None:
    """Train to the end, and measure."""
    torch.manual_seed(0)
    examples, gpt = load_examples(config.work, "training"), GuidedGpt(shape(config.work))
    optimizer = make_optimizer(gpt, learning_rate=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    mel = conditioning_mel(examples.encoder.scale[:, 0])

    def step(number: int) -> dict[str, float]:
        if number % REFRESH_EVERY == 0:
            examples.refresh()
        rng = np.random.default_rng((5, number))
        batch, crops, group, phonemes = draw(examples, gpt.shape, rng)
        batch = replace(batch, codes=mistaken(batch.codes, gpt.shape, rng))
        set_learning_rate(optimizer, LEARNING_RATE * learning_rate_share(number, steps=STEPS, warmup_steps=WARMUP))
        with half_precision():
            losses, side = gpt.losses(batch, mel(crops), group, phonemes)
        text, codes = losses.text / batch.num_text_targets, losses.codes / batch.num_code_targets
        reading = losses.reading / batch.num_code_targets
        optimizer.zero_grad()
        (TEXT_WEIGHT * text + CODE_WEIGHT * codes + reading + PHONEME_WEIGHT * side).backward()
        torch.nn.utils.clip_grad_norm_(gpt.parameters(), CLIP_NORM)
        optimizer.step()
        return {"codes": codes.item(), "text": text.item(), "reading": reading.item(), "phonemes": side.item()}

    train_steps("gpt", config.work, STEPS, {"model": gpt, "optimizer": optimizer}, step)
    measure(config)
    save_result(config.work / "gpt" / "gpt.safetensors", plain(gpt))


def measure(config: StageConfig) -> dict[str, float]:
    """Losses on the choosing set, the GPT as it is now; writes losses.json."""
    examples, gpt = load_examples(config.work, "choosing"), GuidedGpt(shape(config.work))
    gpt.load_state_dict(torch.load(config.work / "gpt" / "training.pt", weights_only=True)["model"])
    mel, sums = conditioning_mel(examples.encoder.scale[:, 0]), np.zeros(3)
    rounds = 10
    with evaluating(gpt):
        for number in range(rounds):
            batch, crops, group, phonemes = draw(examples, gpt.shape, np.random.default_rng((6, number)))
            losses, side = gpt.losses(batch, mel(crops), group, phonemes)
            codes, text = losses.codes / batch.num_code_targets, losses.text / batch.num_text_targets
            sums += [codes.item(), text.item(), side.item()]
    found = dict(zip(("codes", "text", "phonemes"), (sums / rounds).tolist(), strict=True))
    write_atomic(config.work / "gpt" / "losses.json", json.dumps(found))
    print(f"gpt: {found}")
    return found


def load(work: Path) -> XttsGpt:
    """The stage's result, or its last checkpoint while it is in training."""
    gpt, done = XttsGpt(shape(work), ForwardOptions(sdpa=True)), work / "gpt" / "gpt.safetensors"
    if done.is_file():
        gpt.load_state_dict(read_weights(done))
    else:
        state = torch.load(done.with_name("training.pt"), weights_only=True)["model"]
        gpt.load_state_dict({name: tensor for name, tensor in state.items() if not name.startswith("phoneme_head.")})
    return gpt.eval()


def load_examples(work: Path, name: str) -> Examples:
    """All clips of a set."""
    return Examples(Speech(work, name), tokenizer(work), codec.Encoder(work))


def draw(examples: Examples, shape: GptShape, rng: np.random.Generator) -> tuple[PackedBatch, Tensor, Tensor, Tensor]:
    """A random batch, crops to condition on [G, N], which of them each clip has [B], and phonemes of codes [J, 2]."""
    speech = examples.speech
    firsts = rng.integers(len(speech), size=GROUPS)
    samples = int(rng.integers(CROP[0], CROP[1] + 1) * SAMPLE_RATE / DATASET_RATE)
    crops, chosen = [], list[int]()
    for first in firsts:
        *own, other = rng.choice(speech.by_speaker[speech.clips[first].speaker], CLIPS_PER_GROUP + 1).tolist()
        chosen += own
        clip = speech.clips[other]
        crops.append(speech.sound(clip, int(rng.integers(max(1, clip.num_samples - samples))), samples))
    clips = [examples.clips[index] for index in chosen]
    batch = pack(
        [clip.text for clip in clips],
        [clip.codes for clip in clips],
        shape,
        reading=[clip.reading for clip in clips],
        layout="packed",
        multiple=MULTIPLE,
    )
    targets = torch.full((len(batch.code_indices), PHONEMES_PER_CODE), IGNORED)
    place = 0
    for clip in clips:
        targets[place : place + len(clip.codes)] = clip.phonemes
        place += len(clip.codes) + STOPS
    wavs = resample(torch.stack(crops), SAMPLE_RATE, DATASET_RATE)
    return batch, wavs, torch.arange(GROUPS).repeat_interleave(CLIPS_PER_GROUP), targets


def mistaken(codes: Tensor, shape: GptShape, rng: np.random.Generator) -> Tensor:
    """Code inputs [B, Mp] with a share of the codes drawn at random; start, stops and padding stay."""
    drawn = torch.from_numpy(rng.integers(shape.num_codes, size=tuple(codes.shape)))
    chosen = torch.from_numpy(rng.uniform(size=tuple(codes.shape)) < MISTAKEN) & (codes < shape.num_codes)
    return torch.where(chosen, drawn, codes)


def plain(gpt: XttsGpt) -> XttsGpt:
    """The GPT without the side head."""
    found = XttsGpt(gpt.shape)
    found.load_state_dict({n: tensor for n, tensor in gpt.state_dict().items() if not n.startswith("phoneme_head.")})
    return found


def shape(work: Path) -> GptShape:
    """The GPT's sizes."""
    return gpt_shape(make_config(LAYERS, WIDTH, HEADS), tokenizer(work))


def tokenizer(work: Path) -> Tokenizer:
    """The base's; its vocab.json is written at the first call."""
    path = work / "gpt" / "vocab.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            make_vocabulary().save(str(unfinished))
    return Tokenizer(path)


def make_config(layers: int, width: int, heads: int) -> dict[str, Any]:
    """Stock's settings at the starter's sizes. Its GPT sees the STOP behind a text while it learns: it is there when it
    speaks, and an untrained position drew the attention of the guided heads away from the words."""
    from TTS.tts.configs.xtts_config import XttsConfig

    config = XttsConfig()
    arguments = config.model_args
    arguments.gpt_layers, arguments.gpt_n_model_channels, arguments.gpt_n_heads = layers, width, heads
    arguments.decoder_input_dim = width
    arguments.gpt_num_audio_tokens = 1024 + 2
    arguments.gpt_start_audio_token, arguments.gpt_stop_audio_token = 1024, 1025
    arguments.gpt_use_perceiver_resampler = True
    # References are encoded in chunks of the length that training used.
    config.gpt_cond_len, config.gpt_cond_chunk_len, config.max_ref_len = 12, 2, 12
    config.languages = ["en"]
    return config.to_dict() | {"studio_gpt": {"sees_stop": True}}


def make_vocabulary() -> Vocabulary:
    """English letters and punctuation, one token each: the corpus is too small to learn merges from."""
    special = ["[STOP]", "[UNK]", "[SPACE]", "[en]", "[START]"]
    numbers = {token: number for number, token in enumerate([*special, *LETTERS])}
    tokenizer = Vocabulary(models.BPE(vocab=numbers, merges=[], unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


if __name__ == "__main__":
    main_of(StageConfig, {"train": train, "measure": measure})
