"""One recording to one clip of the dataset, or to the reason why not."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from utils.audio.decode import decode
from utils.audio.resample import resample
from utils.audio.write import to_pcm16, write_wav
from utils.config import SAMPLE_RATE
from utils.dataset.checks import Checks
from utils.dataset.existing import Existing, audio_hash, file_hash
from utils.dataset.locate import WAVS, printable
from utils.dataset.report import ClipReport, Fault
from utils.dataset.sources import Recording
from utils.errors import UserError

_NAME_LENGTH = 48


@dataclass(frozen=True, kw_only=True)
class ClipMaker:
    """Makes clips one by one; only one clip's sound is in memory at a time."""

    checks: Checks
    wavs: Path
    """Folder that new wavs are written to."""
    existing: Existing
    """What the dataset has already."""
    sources: dict[str, str] = field(default_factory=dict)
    """File name of each clip that was used, by its audio hash."""

    def make(self, recording: Recording) -> ClipReport:
        """What becomes of a recording; its wav is written when it is new and usable.

        Raises:
            OSError: the wav cannot be written.
        """
        clip = ClipReport(
            source=printable(recording.audio),
            status="dropped",
            text=recording.text,
            speaker=recording.speaker,
            source_text=recording.text,
            source_speaker=recording.speaker,
        )
        if recording.fault:
            return self._drop_unless_had(clip, recording.fault)
        try:
            clip = replace(clip, source_hash=file_hash(recording.audio))
        except OSError as error:
            return self._drop_unless_had(clip, Fault("unreadable audio", f"it cannot be opened: {error.strerror}"))
        known = self.existing.by_file.get(clip.source_hash)
        return self._keep(clip, known) if known else self._bring_in(clip, recording.audio)

    def _drop_unless_had(self, clip: ClipReport, fault: Fault) -> ClipReport:
        """A file that is gone, locked or no longer named is no reason to lose the clip that was made from it."""
        known = self.existing.by_source.get(clip.source)
        if known is None or fault.reason not in ("missing file", "unreadable audio", "no transcript"):
            return _drop(clip, fault)
        clip = replace(clip, source_hash=known.source_hash)
        if fault.reason == "no transcript":
            # The next table of a series names its own recordings only; the clip keeps what the earlier one said.
            clip = replace(clip, source_text=known.source_text, source_speaker=known.source_speaker)
        return self._keep(clip, known)

    def _keep(self, clip: ClipReport, known: ClipReport) -> ClipReport:
        """A recording whose sound the dataset has: edits made there stand, unless the source changed as well."""
        if clip.source_text == known.source_text:
            clip = replace(clip, text=known.text)
        if clip.source_speaker == known.source_speaker:
            clip = replace(clip, speaker=known.speaker)
        clip = replace(clip, num_samples=known.num_samples, audio_hash=known.audio_hash)
        if known.reason == "removed by hand":
            return replace(_drop(clip, Fault("removed by hand", known.detail)), clip=known.clip)
        fault, num_tokens = self.checks.text(clip.text)
        clip = replace(clip, num_tokens=num_tokens)
        fault = fault or self.checks.length(clip.num_samples)
        if fault:
            # With its wav and its text, so that under other limits it comes back as it was edited.
            return replace(_drop(clip, fault), clip=known.clip)
        fault = self._duplicate(clip)
        return _drop(clip, fault) if fault else self._use(clip, known.clip)

    def _bring_in(self, clip: ClipReport, audio: Path) -> ClipReport:
        """A recording the dataset does not have."""
        fault, num_tokens = self.checks.text(clip.text)
        clip = replace(clip, num_tokens=num_tokens)
        if fault:
            return _drop(clip, fault)
        try:
            pcm = self._samples(audio)
        except UserError as error:
            return _drop(clip, Fault("unreadable audio", error.what))
        clip = replace(clip, num_samples=pcm.shape[1], audio_hash=audio_hash(pcm))
        known = self.existing.by_sound.get(clip.audio_hash)
        if known:
            return self._keep(clip, known)
        fault = self.checks.sound(pcm) or self._duplicate(clip)
        if fault:
            return _drop(clip, fault)
        name = _wav_name(audio, clip.audio_hash)
        write_wav(self.wavs / name, pcm, SAMPLE_RATE)
        return self._use(clip, f"{WAVS}/{name}")

    def _samples(self, audio: Path) -> Tensor:
        """int16 at 22 050 Hz, [1, N]; of a recording that is too long only a little more than the limit."""
        longest = self.checks.max_audio_length / SAMPLE_RATE
        wav, sample_rate = decode(audio, max_seconds=longest + 1)
        return to_pcm16(resample(wav, sample_rate, SAMPLE_RATE))

    def _duplicate(self, clip: ClipReport) -> Fault | None:
        first = self.sources.get(clip.audio_hash)
        return Fault("duplicate audio", f"the same sound as {first}") if first else None

    def _use(self, clip: ClipReport, wav: str) -> ClipReport:
        self.sources[clip.audio_hash] = Path(clip.source).name
        return replace(clip, status="used", clip=wav)


def _drop(clip: ClipReport, fault: Fault) -> ClipReport:
    return replace(clip, status="dropped", reason=fault.reason, detail=fault.detail)


def _wav_name(audio: Path, digest: str) -> str:
    """A name that people recognise and that no other sound has."""
    stem = re.sub(r"[^\w-]+", "_", audio.stem)[:_NAME_LENGTH]
    return f"{stem}-{digest[:12]}.wav"
