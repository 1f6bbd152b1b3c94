"""Sentences to read aloud, and the recordings of them among a project's uploads; without torch.

A recording is uploads/dataset/wavs/read-LANGUAGE-FIRST-WORDS.wav, kept-... where something is wrong with it, with its
words in a .txt beside it, so that a dataset is made of it as of any other upload. What was read is what lies there.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from utils.audio.sound_file import sound_seconds
from utils.dataset.sources.intake import RECORDINGS_FOLDER, add_uploads, remove_uploads, safe_name, uploads_folder
from utils.errors import disk_errors
from utils.project.paths import Project

ENOUGH_S = 180.0
"""Seconds of clean recordings that a reading ends with: thirty to forty sentences."""
CLEAN, KEPT = "read", "kept"
"""Beginnings of names: of recordings with which nothing is wrong, and of all others."""
_NAME_LENGTH = 48
"""Of a longer sentence the name has the beginning and a checksum: two may begin alike."""


@dataclass(frozen=True)
class RecordingSession:
    """What a project's speaker reads aloud."""

    project: Project
    language: str
    """Plain code."""

    @property
    def sentences(self) -> list[str]:
        """Those of the language; none where there are none yet."""
        known = Path(__file__).with_name("sentences.json").read_text(encoding="utf-8")
        return list(json.loads(known).get(self.language, []))

    @property
    def recorded(self) -> dict[str, float]:
        """Seconds of what was read so far, by the file's name."""
        folder = uploads_folder(self.project) / RECORDINGS_FOLDER
        files = [path for kind in (CLEAN, KEPT) for path in folder.glob(f"{kind}-{self.language}-*.wav")]
        return {path.name: sound_seconds(path) or 0.0 for path in files}

    @property
    def clean_s(self) -> float:
        """Seconds of those with which nothing is wrong."""
        return sum(seconds for name, seconds in self.recorded.items() if name.startswith(CLEAN))

    def following(self, sentence: str = "") -> str:
        """The sentence that is to be read after another: one that was not read yet; empty where all were."""
        done, known = self.recorded, self.sentences
        at = known.index(sentence) + 1 if sentence in known else 0
        turned = known[at:] + known[:at]
        return next((one for one in turned if not {self._name(CLEAN, one), self._name(KEPT, one)} & done.keys()), "")

    @disk_errors()
    def keep(self, words: str, wav: Path, *, quota_bytes: int, sentence: str = "", is_clean: bool = True) -> None:
        """Move the recording of a sentence to the uploads, in place of an earlier one.

        Args:
            words: what was read.
            wav: the recording; its folder is a temporary one.
            sentence: that was shown to be read, if one was: it is done, whatever was made of its words.
            is_clean: whether nothing is wrong with the recording.
            quota_bytes: all uploads of the project together may take so much.

        Raises:
            UserError: the quota or the disk has no room for it.
        """
        kinds = (CLEAN, KEPT) if is_clean else (KEPT, CLEAN)
        name, other = (self._name(kind, sentence or words) for kind in kinds)
        sound = wav.rename(wav.with_name(name))
        transcript = sound.with_suffix(".txt")
        transcript.write_text(words, encoding="utf-8")
        add_uploads(self.project, [sound, transcript], quota_bytes=quota_bytes)
        remove_uploads(self.project, [other, Path(other).with_suffix(".txt").name])

    def _name(self, kind: str, words: str) -> str:
        start = "-".join(re.findall(r"\w+", words.lower()))
        if len(start) > _NAME_LENGTH:
            start = f"{start[:_NAME_LENGTH]}-{crc32(start.encode()):08x}"
        return safe_name(f"{kind}-{self.language}-{start}.wav")
