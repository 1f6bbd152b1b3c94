"""Make the bundled voice with espeak-ng: python -m recipes.demo_voice.make (writes assets/demo_voice).

One voice, sentences.txt beside this file, 16-bit FLAC at 22 050 Hz; espeak-ng 1.51 gives the same samples each time.
The voice is held out of every training corpus of the starter base, which is fine-tuned on it.
"""

import re
import subprocess
import tempfile
from pathlib import Path

import soundfile
import torch
from torch import Tensor

from utils.audio.decode import load_audio
from utils.audio.write import to_pcm16
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.errors import UserError
from utils.options import DATASET_RATE
from utils.project.paths import assets_folder

VOICE = ["-v", "en-us+f2", "-p", "55", "-s", "155"]
SENTENCES = Path(__file__).with_name("sentences.txt")
SECONDS = (1.5, 8.0)
PEAK = (0.3, 0.99)
MAX_LEAD_SECONDS, MAX_TAIL_SECONDS = 0.15, 0.4
SILENCE = 0.003
# espeak-ng's names for the sounds of American English; each must occur.
SOUNDS = "p b t d k ɡ tʃ dʒ f v θ ð s z ʃ ʒ h m n ŋ l ɹ j w iː ɪ eɪ ɛ æ ɑː ɔː oʊ ʊ uː ʌ ɜː aɪ aʊ ɔɪ ɚ".split()  # noqa: SIM905


def main() -> None:
    """Write assets/demo_voice anew; demo_heldout.txt is written by hand and only checked."""
    folder = assets_folder() / "demo_voice"
    sentences = _lines(SENTENCES)
    _check_text(sentences, held_out=_lines(folder.with_name("demo_heldout.txt")))
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    clips = [make_clip(folder / "wavs" / f"demo-{n:02}.flac", text) for n, text in enumerate(sentences, start=1)]
    write_manifest(folder / "metadata.csv", clips)
    seconds = sum(soundfile.info(clip.audio).duration for clip in clips)
    print(f"{len(clips)} clips, {seconds:.1f} s, in {folder}")


def make_clip(path: Path, text: str) -> Clip:
    """Speak `text` into the FLAC `path`.

    Raises:
        UserError: the sound is too long, too short, faint, clipped, or has long silence at an end.
    """
    with tempfile.TemporaryDirectory() as scratch:
        spoken = Path(scratch) / "spoken.wav"
        subprocess.run(["espeak-ng", *VOICE, "-w", str(spoken), text], check=True)
        wav = load_audio(spoken, DATASET_RATE)
    _check_sound(path.name, wav)
    soundfile.write(path, to_pcm16(wav)[0].numpy(), DATASET_RATE, format="FLAC", subtype="PCM_16")
    return Clip(audio=path, text=text, speaker="demo")


def _check_text(sentences: list[str], *, held_out: list[str]) -> None:
    """Sentences of the right length that cover the sounds of English and leave the held-out ones unspoken."""
    faults = [f"not 3 to 18 words: {text}" for text in sentences if not 3 <= len(text.split()) <= 18]
    faults += [f"also held out: {text}" for text in set(sentences) & set(held_out)]
    faults += [f"there twice: {text}" for text in set(sentences) if sentences.count(text) > 1]
    faults += [f"digits: {text}" for text in sentences if re.search(r"\d", text)]
    spoken = _phonemes("\n".join(sentences))
    faults += [f"no sentence has the sound {sound}" for sound in SOUNDS if sound not in spoken]
    _refuse(faults, SENTENCES)


def _check_sound(name: str, wav: Tensor) -> None:
    """A clip of the right length, neither faint nor clipped, with short silence at its ends; wav is [1, T]."""
    loud = torch.nonzero(wav[0].abs() > SILENCE)[:, 0]
    lead, tail = loud[0].item() / DATASET_RATE, (wav.shape[1] - 1 - loud[-1].item()) / DATASET_RATE
    seconds, peak = wav.shape[1] / DATASET_RATE, wav.abs().max().item()
    faults = []
    if not SECONDS[0] <= seconds <= SECONDS[1]:
        faults.append(f"{seconds:.2f} s long")
    if not PEAK[0] <= peak <= PEAK[1]:
        faults.append(f"peak {peak:.3f}")
    if lead > MAX_LEAD_SECONDS or tail > MAX_TAIL_SECONDS:
        faults.append(f"{lead:.3f} s of silence before, {tail:.3f} s after")
    _refuse(faults, name)


def _phonemes(text: str) -> str:
    command = ["espeak-ng", "-q", "--ipa", *VOICE, text]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _refuse(faults: list[str], where: Path | str) -> None:
    if faults:
        raise UserError(what="; ".join(faults), where=str(where))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    main()
