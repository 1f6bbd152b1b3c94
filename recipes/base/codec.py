"""Stage 3: the codec, a DVAE whose 1,024 codes carry words; leaves `<work>/codec/codec.safetensors`.

At 21.5 codes a second a codec spends its bits on loudness and speaker unless it need not: here the decoder is given the
speaker, and two heads read phonemes from the quantized latents (each frame's, and their sequence by CTC). First encoder
and decoder learn without a quantizer; then k-means makes the codebook. The base keeps encoder and codebook alone.

    python -m recipes.base.codec --work FOLDER

Shapes: B crops, M codes, F = 4 M DVAE frames, E width of a latent, T decoder frames (256 samples at 24 000 Hz),
V phoneme tokens, S width of a speaker embedding.
Source: GPT-SoVITS for codes of content with the speaker in the decoder alone; Graves et al. 2006 for CTC.
"""

import json
from pathlib import Path

import jiwer
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from TTS.tts.layers.xtts.dvae import DiscreteVAE

from recipes.base import vocoder as vocoder_stage
from recipes.base.speech import Speech, SpokenClip
from recipes.base.stage import StageConfig, main_of
from recipes.base.teacher import SAMPLE_RATE
from recipes.base.training import REFRESH_EVERY, evaluating, half_precision, save_result, train_steps
from recipes.base.words import judge
from utils.codec_training.training_state import learning_rate_share, set_learning_rate
from utils.codec_training.tune_dvae import DEAD, FRAMES_PER_CODE, set_codes
from utils.files import write_atomic
from utils.model.decoder.acoustic import HOP, AcousticModel
from utils.model.decoder.vocos import ConvNextBlock
from utils.model.dvae import TAIL_SAMPLES, lay_out_dvae, needed_tensors
from utils.model.eight_bit import from_eight_bit, to_eight_bit
from utils.model.mel import HOP as DVAE_HOP
from utils.model.shapes import NUM_MELS
from utils.model.weights import read_weights, write_weights
from utils.options import CODE_SAMPLES, DATASET_RATE

NUM_CODES, CODE_WIDTH = 1_024, 64
SPEAKER_WIDTH, SPEAKER_CHANNELS, SPEAKER_FRAMES = 128, 128, 160
DECODER_BLOCKS = 6
NUM_PHONEMES = 180
"""More than the teacher's largest token."""
MARKS = frozenset(range(17)) | {156, 157, 158}
"""Tokens without a sound of their own: silence, punctuation, stress, length."""
CTC_PER_CODE = 2
"""CTC needs more positions than phonemes: two a code are 43 a second."""

STEPS, OPEN_STEPS = 13_000, 4_000
"""In all, and without a quantizer."""
PLAIN_STEPS = 2_000
"""Of the DVAE's own decoder, which knows no speaker: a base's DVAE is whole, so that its codec can be tuned."""
BATCH_SIZE, CODES = 12, 48
LEARNING_RATE, WARMUP = 6e-4, 300
FRAME_WEIGHT, CTC_WEIGHT, COMMITMENT_WEIGHT = 0.15, 0.15, 0.25
KMEANS_CROPS, KMEANS_ROUNDS = 400, 10
REVIVE_EVERY, REVIVE_UNTIL = 200, 0.8
MARGIN = 8
"""Decoder frames at each end of a crop that do not count: their neighbors are missing."""


class SpeakerReader(nn.Module):
    """Speaker embedding of a stretch of another clip: mels [B, 80, F] to [B, S, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(NUM_MELS, SPEAKER_CHANNELS, 5, stride=2, padding=2)
        self.blocks = nn.ModuleList(ConvNextBlock(SPEAKER_CHANNELS, scale=0.3) for _ in range(3))
        self.leave = nn.Linear(SPEAKER_CHANNELS, SPEAKER_WIDTH)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.enter(mel)
        for block in self.blocks:
            x = block(x)
        return F.normalize(self.leave(x.mean(2)), dim=1)[..., None]


class Codec(nn.Module):
    """DVAE in stock's form, and what it is trained with: a decoder that knows the speaker, and the heads."""

    def __init__(self) -> None:
        super().__init__()
        self.dvae: DiscreteVAE = lay_out_dvae(
            channels=NUM_MELS,
            num_tokens=NUM_CODES,
            codebook_dim=CODE_WIDTH,
            hidden_dim=192,
            num_resnet_blocks=3,
            kernel_size=3,
        )
        self.speaker = SpeakerReader()
        self.acoustic = AcousticModel(CODE_WIDTH, SPEAKER_WIDTH, DECODER_BLOCKS)
        self.frame_head = nn.Conv1d(CODE_WIDTH, FRAMES_PER_CODE * NUM_PHONEMES, 1)
        self.ctc_head = nn.Conv1d(CODE_WIDTH, CTC_PER_CODE * NUM_PHONEMES, 3, padding=1)

    def latents(self, mel: Tensor, *, quantize: bool) -> tuple[Tensor, Tensor]:
        """Scaled mels [B, 80, F] to latents [B, E, M], with straight-through gradients, and the commitment loss."""
        z = self.dvae.encoder(mel).float()
        if not quantize:
            return z, z.new_zeros(())
        with half_precision(enabled=False):
            quantized, _, commitment = self.dvae.codebook(z.transpose(1, 2))
        return quantized.transpose(1, 2), commitment

    def decode(self, latents: Tensor, speaker: Tensor) -> Tensor:
        """Latents [B, E, M] and speakers [B, S, 1] to log-mels at 24 000 Hz, [B, 80, T]."""
        mel = self.acoustic(decoder_frames(latents), speaker).mel
        assert mel is not None, "the acoustic model predicts mels"
        return mel.float()

    def frame_logits(self, latents: Tensor) -> Tensor:
        """Phonemes of each DVAE frame, [B, V, F]."""
        return _spread(self.frame_head(latents).float(), FRAMES_PER_CODE)

    def ctc_logits(self, latents: Tensor) -> Tensor:
        """Phonemes in their order, [B, V, 2 M]; token 0 is CTC's blank."""
        return _spread(self.ctc_head(latents).float(), CTC_PER_CODE)


def decoder_frames(latents: Tensor) -> Tensor:
    """Latents [B, E, M] at the decoder's own rate, [B, E, T]. Source: coqui-tts, HifiDecoder.forward."""
    frames = F.interpolate(latents, scale_factor=float(FRAMES_PER_CODE), mode="linear")
    return F.interpolate(frames, scale_factor=SAMPLE_RATE / DATASET_RATE, mode="linear")


def train(config: StageConfig) -> None:
    """Train to the end, and measure the gate."""
    speech, target, folder = Speech(config.work, "training"), vocoder_stage.MelTarget(), config.work / "codec"
    scale = mel_scale(folder, speech)
    torch.manual_seed(0)
    codec = Codec()
    optimizer = torch.optim.AdamW(codec.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    inner = slice(MARGIN, -MARGIN)

    def step(number: int) -> dict[str, float]:
        if number % REFRESH_EVERY == 0:
            speech.refresh()
        rng = np.random.default_rng((3, number))
        clips = [speech.clips[index] for index in rng.integers(len(speech), size=BATCH_SIZE)]
        mel, sound, phonemes, others = _batch(speech, clips, rng)
        if number == OPEN_STEPS:
            drawn = [speech.clips[index] for index in rng.integers(len(speech), size=KMEANS_CROPS)]
            init_codebook(codec.dvae, _batch(speech, drawn, rng)[0] / scale, rng)
        set_learning_rate(optimizer, LEARNING_RATE * learning_rate_share(number, steps=STEPS, warmup_steps=WARMUP))
        with half_precision():
            latents, commitment = codec.latents(mel / scale, quantize=number >= OPEN_STEPS)
            made = codec.decode(latents, codec.speaker(others / scale))
            logits, order = codec.frame_logits(latents), codec.ctc_logits(latents)
        real = target(sound)[..., : made.shape[2]]
        frames, ctc = F.cross_entropy(logits, phonemes), _ctc_loss(order, phonemes)
        mels = F.l1_loss(made[..., inner], real[..., inner])
        optimizer.zero_grad()
        (mels + FRAME_WEIGHT * frames + CTC_WEIGHT * ctc + COMMITMENT_WEIGHT * commitment).backward()
        torch.nn.utils.clip_grad_norm_(codec.parameters(), 2.0)
        optimizer.step()
        if number > OPEN_STEPS and number % REVIVE_EVERY == 0 and number < REVIVE_UNTIL * STEPS:
            revive_dead_codes(codec.dvae, mel / scale, rng)
        return {
            "mel": mels.item(),
            "frames": frames.item(),
            "ctc": ctc.item(),
            "commitment": commitment.item(),
            "wrong_frames": (logits.argmax(1) != phonemes).float().mean().item(),
        }

    train_steps("codec", config.work, STEPS, {"model": codec, "optimizer": optimizer}, step)
    measure(config)
    _train_plain_decoder(config, codec, speech, scale)
    # Last: the stage is done when this file is there.
    save_result(folder / "codec.safetensors", codec)


@torch.no_grad()
def init_codebook(dvae: DiscreteVAE, mel: Tensor, rng: np.random.Generator) -> None:
    """Set the codebook to k-means centers of the encoder's outputs on scaled mels [B, 80, F].

    Random code vectors lie far from the encoder's outputs: a handful would win everything and the rest die.
    """
    outputs = _encoder_outputs(dvae, mel)
    centers = outputs[torch.from_numpy(rng.permutation(len(outputs))[: dvae.num_tokens])]
    for _ in range(KMEANS_ROUNDS):
        nearest = torch.cdist(outputs, centers).argmin(1)
        counts = torch.bincount(nearest, minlength=len(centers))[:, None]
        sums = torch.zeros_like(centers).index_add_(0, nearest, outputs)
        centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers)
    set_codes(dvae, torch.arange(dvae.num_tokens), centers)


@torch.no_grad()
def revive_dead_codes(dvae: DiscreteVAE, mel: Tensor, rng: np.random.Generator) -> None:
    """Move codes that are hardly chosen any more onto encoder outputs of this batch."""
    outputs = _encoder_outputs(dvae, mel)
    dead = (dvae.codebook.cluster_size < DEAD).nonzero().flatten()[: len(outputs)]
    set_codes(dvae, dead, outputs[torch.from_numpy(rng.permutation(len(outputs))[: len(dead)])])


def _encoder_outputs(dvae: DiscreteVAE, mel: Tensor) -> Tensor:
    """What the codebook sees of scaled mels [B, 80, F], as [B * M, E]."""
    outputs: Tensor = dvae.encoder(mel).transpose(1, 2).flatten(0, 1)
    return outputs


def measure(config: StageConfig) -> None:
    """The gate: phoneme errors of the CTC head, and words through codes, decoder and vocoder, on the choosing set."""
    folder = config.work / "codec"
    codec, vocoder, is_open = load(folder), vocoder_stage.load(config), _is_open(folder)
    speech = Speech(config.work, "choosing")
    scale = mel_scale(folder, speech)

    def latents_of(clip: SpokenClip) -> Tensor:
        return codec.latents(whole_codes(speech.mel(clip)[None]) / scale, quantize=not is_open)[0]

    def make(speech: Speech, clip: SpokenClip) -> Tensor:
        other = next(one for one in speech.clips if one.speaker == clip.speaker and one.text != clip.text)
        return vocoder(codec.decode(latents_of(clip), codec.speaker(speech.mel(other)[None] / scale)))[0]

    with evaluating(codec, vocoder):
        expected, found = [], []
        for clip in speech.clips:
            best = codec.ctc_logits(latents_of(clip)).argmax(1)[0].unique_consecutive().tolist()
            found.append(" ".join(str(token) for token in best if token))
            expected.append(" ".join(str(token) for token in clip.tokens if token not in MARKS))
        phoneme_errors = float(jiwer.wer(expected, found))
        judged = judge(config, "codec", make)
    gate = json.loads((folder / "gate.json").read_text(encoding="utf-8"))
    write_atomic(folder / "gate.json", json.dumps({"phoneme_errors": phoneme_errors, "open": is_open} | gate, indent=1))
    print(f"codec: {phoneme_errors:.1%} phoneme errors, {judged.made['wer']:.1%} wrong words, quantized: {not is_open}")


def _train_plain_decoder(config: StageConfig, codec: Codec, speech: Speech, scale: Tensor) -> None:
    """Train the DVAE's own decoder on the codes as they are now; encoder and codebook stay."""
    codec.eval()
    optimizer = torch.optim.AdamW(codec.dvae.decoder.parameters())

    def step(number: int) -> dict[str, float]:
        rng = np.random.default_rng((4, number))
        clips = [speech.clips[index] for index in rng.integers(len(speech), size=BATCH_SIZE)]
        mel = _batch(speech, clips, rng)[0] / scale
        with torch.no_grad():
            latents, _ = codec.latents(mel, quantize=True)
        share = learning_rate_share(number, steps=PLAIN_STEPS, warmup_steps=WARMUP)
        set_learning_rate(optimizer, LEARNING_RATE * share)
        with half_precision():
            made = codec.dvae.decoder(latents)
        loss = F.mse_loss(made.float(), mel)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"error": loss.item()}

    parts = {"decoder": codec.dvae.decoder, "optimizer": optimizer}
    train_steps("plain_decoder", config.work, PLAIN_STEPS, parts, step)


class Encoder:
    """Codes of clips as the engine's DVAE encodes them, by the codec as it is now.

    Args:
        work: the recipe's folder.
    """

    def __init__(self, work: Path) -> None:
        self.codec = load(work / "codec")
        # As the base ships it, or its codes would not be those that the GPT learned.
        self.stored = stored(self.codec.dvae)
        self.codec.dvae.load_state_dict(from_eight_bit(self.stored), strict=False)
        self.scale = read_weights(work / "codec" / "mel_stats.safetensors")["mel_stats"][:, None]

    @torch.inference_mode()
    def __call__(self, speech: Speech, clip: SpokenClip) -> Tensor:
        """[M]: one for each 1 024 samples at 22 050 Hz that the clip fills or begins."""
        # The engine encodes silence after the clip, on which its last codes depend.
        mel = speech.mel(clip, 0, clip.num_frames + TAIL_SAMPLES // DVAE_HOP)
        mel = mel[:, : mel.shape[1] // FRAMES_PER_CODE * FRAMES_PER_CODE]
        codes: Tensor = self.codec.dvae.get_codebook_indices((mel / self.scale)[None])
        return codes[0, : -(-(clip.num_samples * DATASET_RATE // SAMPLE_RATE) // CODE_SAMPLES)]


def stored(dvae: nn.Module) -> dict[str, Tensor]:
    """A DVAE's tensors as they ship: in 8 bits and float16; codes that are close in the codebook stay apart."""
    halved = {name: one.half() if one.is_floating_point() else one for name, one in dvae.state_dict().items()}
    return to_eight_bit(needed_tensors(halved), exact=lambda name: name.startswith("codebook."))


def load(folder: Path) -> Codec:
    """The stage's result, or its last checkpoint while it is in training."""
    codec, done = Codec(), folder / "codec.safetensors"
    saved = folder / "training.pt"
    codec.load_state_dict(read_weights(done) if done.is_file() else torch.load(saved, weights_only=True)["model"])
    return codec.eval()


def mel_scale(folder: Path, speech: Speech) -> Tensor:
    """The base's scale of mels, [80, 1], measured once."""
    path = folder / "mel_stats.safetensors"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_weights(path, {"mel_stats": speech.mel_stats()})
    return read_weights(path)["mel_stats"][:, None]


def whole_codes(mel: Tensor) -> Tensor:
    """Mels [B, 80, F] with the last frame repeated up to a whole code."""
    return F.pad(mel, (0, -mel.shape[2] % FRAMES_PER_CODE), mode="replicate")


def _batch(speech: Speech, clips: list[SpokenClip], rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Crops: DVAE mels [B, 80, F], the same sound [B, 1, 256 T], its phonemes [B, F], mels of another clip each."""
    frames = CODES * FRAMES_PER_CODE
    samples = int(frames * SAMPLE_RATE / DATASET_RATE) * HOP
    mels, sounds, phonemes, others = [], [], [], []
    for clip in clips:
        first = FRAMES_PER_CODE * int(rng.integers(max(1, (clip.num_frames - frames) // FRAMES_PER_CODE)))
        mels.append(speech.mel(clip, first, frames))
        sounds.append(speech.sound(clip, round(first * DVAE_HOP * SAMPLE_RATE / DATASET_RATE), samples))
        phonemes.append(torch.from_numpy(clip.phonemes(first, frames)))
        other = speech.clips[int(rng.choice(speech.by_speaker[clip.speaker]))]
        others.append(speech.mel(other, int(rng.integers(max(1, other.num_frames - SPEAKER_FRAMES))), SPEAKER_FRAMES))
    return torch.stack(mels), torch.stack(sounds)[:, None], torch.stack(phonemes), torch.stack(others)


def _ctc_loss(logits: Tensor, phonemes: Tensor) -> Tensor:
    """Mean CTC loss of logits [B, V, 2 M] for the sounds among the frames' phonemes [B, F]."""
    rows = [[token for token in row.unique_consecutive().tolist() if token not in MARKS] for row in phonemes]
    targets = torch.tensor([token for row in rows for token in row])
    lengths = torch.tensor([len(row) for row in rows])
    positions = torch.full_like(lengths, logits.shape[2])
    scores = logits.permute(2, 0, 1).log_softmax(2)
    return F.ctc_loss(scores, targets, positions, lengths, zero_infinity=True)


def _spread(x: Tensor, times: int) -> Tensor:
    """[B, times V, M] to [B, V, times M]: each code's parts one after another."""
    batch, _, codes = x.shape
    return x.view(batch, -1, times, codes).transpose(2, 3).reshape(batch, -1, times * codes)


def _is_open(folder: Path) -> bool:
    """Whether the training has not come to the quantizer yet."""
    saved = folder / "training.pt"
    if (folder / "codec.safetensors").is_file():
        return False
    return int(torch.load(saved, weights_only=True)["step"]) <= OPEN_STEPS


if __name__ == "__main__":
    main_of(StageConfig, {"train": train, "measure": measure})
