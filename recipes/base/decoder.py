"""Stage 6: the decoder from the GPT's states to sound; leaves `<work>/decoder/decoder.safetensors`.

Each clip is put through the GPT with its true codes (teacher forcing), and half of them with some codes that the GPT
itself would have said there, so that the decoder also knows states after mistakes. First the acoustic model learns from
spectrograms alone, then it and the vocoder together, with a discriminator.

    python -m recipes.base.decoder --work FOLDER

Shapes: M codes of a clip, D model width, E width of a speaker embedding.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from recipes.base import codec, gpt, speaker_encoder, vocoder
from recipes.base.corpus import wait_while_paused
from recipes.base.speech import Speech, SpokenClip
from recipes.base.stage import StageConfig, main_of
from recipes.base.teacher import SAMPLE_RATE
from recipes.base.training import save_result
from recipes.base.words import judge
from utils.audio.resample import resample
from utils.decoder_training.decoder import decode, train_decoder
from utils.decoder_training.decoder_clips import DecoderClip, DecoderTraining, known_latents
from utils.decoder_training.spectral import RESOLUTIONS, Verdict, spectrum
from utils.files import write_atomic
from utils.model.decoder.build import build_decoder
from utils.model.gpt import XttsGpt
from utils.model.voices import ReferenceLimits, Voice, make_voice
from utils.model.weights import read_weights
from utils.options import DATASET_RATE
from utils.text.tokenizer import Tokenizer

SHAPE = replace(speaker_encoder.SHAPE, trunk_blocks=codec.DECODER_BLOCKS, vocoder_blocks=8)
SETTINGS = DecoderTraining(
    trunk_steps=6_000,
    trunk_batch_size=24,
    steps=2_000,
    batch_size=8,
    crop_latents=24,
    margin_latents=3,
    speaker_noise=0.1,
    bf16=True,
)
NUM_CLIPS = 4_000
CLIPS_PER_VOICE = 4
"""Clips that share a reference, made of themselves."""
LIMITS = ReferenceLimits(max_seconds=12, latent_seconds=12, chunk_seconds=2)
OWN_SHARE = 0.25
"""Of the codes, in every second group of clips, the GPT's own."""


class SpectralStack(nn.Module):
    """Convolutions over one spectrogram [B, 1, K, F] that halve K four times and F once."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        sizes = [(1, (9, 3), (2, 2)), *[(channels, (9, 3), (2, 1))] * 3, (channels, (3, 3), (1, 1))]
        self.inner = nn.ModuleList(
            weight_norm(nn.Conv2d(given, channels, kernel, stride, padding=(kernel[0] // 2, kernel[1] // 2)))
            for given, kernel, stride in sizes
        )
        self.last = weight_norm(nn.Conv2d(channels, 1, 3, padding=1))

    def forward(self, x: Tensor) -> Verdict:
        """Log-magnitudes [B, 1, K, F] to a verdict."""
        features = []
        for layer in self.inner:
            x = F.leaky_relu(layer(x), 0.2)
            features.append(x)
        return self.last(x), features


class SpectralDiscriminator(nn.Module):
    """Looks at magnitude spectrograms at three resolutions and says where they look real.

    Far narrower than in the paper (8 channels instead of 32), and coarse from the first layer on: on a CPU the full one
    costs ten times as much as the decoder it scores.

    Source: Jang et al. 2021, UnivNet, section 2.3.
    """

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.stacks = nn.ModuleList(SpectralStack(channels) for _ in RESOLUTIONS)

    def forward(self, sound: Tensor) -> list[Verdict]:
        """One verdict for each resolution of sounds [B, 1, N]."""
        spectra = (spectrum(sound, resolution).log()[:, None] for resolution in RESOLUTIONS)
        return [stack(x) for stack, x in zip(self.stacks, spectra, strict=True)]


class Reader:
    """What turns clips into states: GPT, codes and voices, as they are now.

    Args:
        work: the recipe's folder.
    """

    def __init__(self, work: Path) -> None:
        self.gpt: XttsGpt = gpt.load(work)
        self.tokenizer: Tokenizer = gpt.tokenizer(work)
        self.encoder = codec.Encoder(work)
        self.decoder = cast(HifiDecoder, build_decoder(SHAPE)).eval()
        self.decoder.speaker_encoder = speaker_encoder.load(work)

    def voice(self, speech: Speech, clips: list[SpokenClip]) -> Voice:
        """The voice of some clips, one after another."""
        sound = torch.cat([speech.sound(clip) for clip in clips])[None, : LIMITS.max_seconds * SAMPLE_RATE]
        wav = resample(sound, SAMPLE_RATE, DATASET_RATE)
        return make_voice(self.gpt, self.decoder, self.encoder.scale[:, 0], wav, LIMITS)

    @torch.inference_mode()
    def states(self, speech: Speech, clips: list[SpokenClip], voice: Voice, *, own: float = 0.0) -> list[Tensor]:
        """The states that say each clip, [M + 1, D]; `own` is the share of codes that the GPT draws itself."""
        texts = [torch.tensor(self.tokenizer.encode(clip.text, "en")) for clip in clips]
        codes = [self.encoder(speech, clip) for clip in clips]
        states = known_latents(self.gpt, voice.latents, texts, codes)
        if own:
            codes = [self._mistaken(true, state[:-1], own) for true, state in zip(codes, states, strict=True)]
            states = known_latents(self.gpt, voice.latents, texts, codes)
        return states

    def _mistaken(self, codes: Tensor, states: Tensor, share: float) -> Tensor:
        likely = self.gpt.mel_head(states)[:, : self.gpt.shape.num_codes].softmax(1)
        return torch.where(torch.rand(len(codes)) < share, likely.multinomial(1)[:, 0], codes)


def train(config: StageConfig) -> None:
    """Train to the end, and measure the gate."""
    folder = config.work / "decoder"
    clips = examples(config.work)
    torch.manual_seed(0)
    decoder = cast(HifiDecoder, build_decoder(SHAPE))
    decoder.waveform_decoder.vocoder.load_state_dict(vocoder.load(config).state_dict())
    # The codec's own decoder knows mels and voices already; what it reads is another thing.
    known = codec.load(config.work / "codec").acoustic.state_dict()
    kept = {name: tensor for name, tensor in known.items() if "enter" not in name and ".voice." not in name}
    decoder.waveform_decoder.trunk.load_state_dict(kept, strict=False)

    def pause(*_: object) -> None:
        wait_while_paused(config.work)

    train_decoder(decoder, clips, settings=SETTINGS, folder=folder, critic=SpectralDiscriminator, on_log=pause)
    measure(config)
    decoder.speaker_encoder = speaker_encoder.load(config.work)
    save_result(folder / "decoder.safetensors", decoder)


def measure(config: StageConfig) -> None:
    """The gate: words of the choosing set from true codes through GPT and decoder as they are now."""
    reader, decoder = Reader(config.work), load(config.work)

    def make(speech: Speech, clip: SpokenClip) -> Tensor:
        others = [one for one in speech.clips if one.speaker == clip.speaker and one.text != clip.text]
        voice = reader.voice(speech, others[:CLIPS_PER_VOICE])
        (states,) = reader.states(speech, [clip], voice)
        return decode(decoder, states[None, :-1], voice.embedding)[0]

    judge(config, "decoder", make)


def load(work: Path) -> HifiDecoder:
    """The stage's result, or its last checkpoint while it is in training."""
    decoder, done = cast(HifiDecoder, build_decoder(SHAPE)), work / "decoder" / "decoder.safetensors"
    if done.is_file():
        decoder.load_state_dict(read_weights(done))
    else:
        saved = torch.load(done.with_name("decoder_training.pt"), weights_only=True)
        decoder.waveform_decoder.load_state_dict(saved["generator"])
    return decoder.eval()


def examples(work: Path) -> list[DecoderClip]:
    """Training examples by the GPT as it is now, made once for each of its checkpoints."""
    steps = torch.load(work / "gpt" / "training.pt", weights_only=True)["step"]
    folder = work / "decoder" / f"examples_{steps}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "voices.json"
    if not done.is_file():
        reader, speech, rng = Reader(work), Speech(work, "training"), np.random.default_rng(8)
        torch.manual_seed(8)
        voices: list[list[float]] = []
        for number, clips in enumerate(islice(_groups(speech, rng), NUM_CLIPS // CLIPS_PER_VOICE)):
            wait_while_paused(work)
            voice = reader.voice(speech, clips)
            states = reader.states(speech, clips, voice, own=OWN_SHARE * (number % 2))
            for clip, state in zip(clips, states, strict=True):
                path = folder / f"{len(voices)}.npy"
                np.save(path, state.half().numpy())
                soundfile.write(path.with_suffix(".wav"), speech.sound(clip).numpy(), SAMPLE_RATE)
                voices.append(voice.embedding.flatten().tolist())
        write_atomic(done, json.dumps(voices))
    known = json.loads(done.read_text(encoding="utf-8"))
    paths = [folder / f"{number}.npy" for number in range(len(known))]
    return [
        DecoderClip(latents=path, wav=path.with_suffix(".wav"), speaker=torch.tensor(voice))
        for path, voice in zip(paths, known, strict=True)
    ]


def _groups(speech: Speech, rng: np.random.Generator) -> Iterator[list[SpokenClip]]:
    """Clips of a random speaker, again and again; a clip's chance is the same for all."""
    while True:
        speaker = speech.clips[int(rng.integers(len(speech)))].speaker
        yield [speech.clips[int(one)] for one in rng.choice(speech.by_speaker[speaker], CLIPS_PER_VOICE)]


if __name__ == "__main__":
    main_of(StageConfig, {"train": train, "measure": measure})
