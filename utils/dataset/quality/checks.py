"""Check clips against the base's tokenizer and the limits of the settings."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from utils.dataset.formats.faults import Fault
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import ClipReport
from utils.errors import UserError, raise_problems
from utils.options import CODE_SAMPLES, DATASET_RATE, MIN_CLIP_SECONDS
from utils.project.advice import extend_command
from utils.project.paths import open_project
from utils.text.tokenizer import UNKNOWN, Tokenizer
from utils.text.unknown import code_and_name, suggestion

if TYPE_CHECKING:
    from utils.bases.base import Base

_LONGEST_TOKEN = 64
"""Characters that one token never has more than."""
_NAMED = 8
"""Unknown characters that a message names."""


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The limits of one preparation."""

    tokenizer: Tokenizer
    language: str
    max_text_length: int
    """Tokens."""
    max_audio_length: int
    """Samples at 22 050 Hz."""
    extend: str
    """Command that adds the language's letters to the base."""

    @classmethod
    def of(cls, config: PrepareConfig, base: "Base") -> "Checks":
        """The limits that the settings and the base set: of each the base's own where the settings name none.

        Raises:
            UserError: the base cannot read the language, or has no positions for clips as long as the settings allow.
        """
        shape = base.gpt_shape()
        longest_audio, longest_text = (shape.max_audio_tokens - 1) * CODE_SAMPLES, shape.max_text_tokens
        audio, text = config.max_audio_length, config.max_text_length
        found = []
        if audio is not None and audio > longest_audio:
            found.append(f"max_audio_length is {audio} samples; the base {base.name} takes at most {longest_audio}")
        if text is not None and text > longest_text:
            found.append(f"max_text_length is {text} tokens; the base {base.name} takes at most {longest_text}")
        raise_problems(found, where=str(base.folder))
        # Imported late: processes that only check clips need no base.
        from utils.bases.amharic import language_tokenizer

        # A base that learned the Latin form reads nothing else, whether or not the settings say so.
        tokenizer = base.tokenizer()
        if config.use_amharic_g2p:
            tokenizer = language_tokenizer(base, config.language, use_amharic_g2p=True)
        project = open_project(config.project, config.output)
        return cls(
            tokenizer=tokenizer,
            language=tokenizer.check_language(config.language, base=config.base, project=project),
            extend=extend_command(config.language, config.base, project),
            max_text_length=min(base.defaults.max_text_length, longest_text) if text is None else text,
            max_audio_length=min(base.defaults.max_audio_length, longest_audio) if audio is None else audio,
        )

    def read(self, clip: ClipReport) -> tuple[ClipReport, Fault | None]:
        """A clip with what the model reads in its transcript, and what is wrong with that."""
        text, clip = clip.text, replace(clip, num_tokens=0, read="", unknown={})
        if not any(map(str.isalnum, text)):
            return clip, Fault("empty text", "the transcript has no words")
        if len(text) > self.max_text_length * _LONGEST_TOKEN:
            # Reported before a whole book is cut, not after.
            detail = f"the transcript has {len(text)} characters, the limit is {self.max_text_length} tokens"
            return clip, Fault("text too long", detail)
        try:
            read = self.tokenizer.normalize(text, self.language)
            tokens = self.tokenizer.encode_normalized(read, self.language)
            unknown = self._unknown(text, tokens)
        except UserError as error:
            return clip, Fault("unreadable text", error.what)
        clip = replace(clip, num_tokens=len(tokens), read=read)
        if unknown:
            fault = Fault("unknown characters", f"unsupported characters: {_named(unknown)}")

            def is_known(other: str) -> bool:
                return not self._unknown(other, self.tokenizer.encode(other, self.language))

            instead = {char: suggestion(char, is_known, extend=self.extend) for char in unknown}
            return replace(clip, unknown=instead), fault
        if len(tokens) > self.max_text_length:
            limit = f"the transcript has {len(tokens)} tokens, the limit is {self.max_text_length}"
            return clip, Fault("text too long", limit)
        return clip, None

    def reads(self, text: str) -> str:
        """A text as the model reads it; as it is where the language's rules cannot read it."""
        try:
            return self.tokenizer.normalize(text, self.language)
        except UserError:
            return text

    def length(self, num_samples: int) -> Fault | None:
        """What is wrong with a duration, in samples at 22 050 Hz."""
        seconds = num_samples / DATASET_RATE
        if seconds < MIN_CLIP_SECONDS:
            return Fault("too short", f"{seconds:.2f} s, the shortest clip is {MIN_CLIP_SECONDS} s")
        if num_samples > self.max_audio_length:
            # Decoding stops at the limit, so the full length is not known.
            return Fault("too long", f"longer than {self.max_audio_length / DATASET_RATE:.1f} s, the longest clip")
        return None

    def _unknown(self, text: str, tokens: list[int]) -> list[str]:
        """Characters outside the vocabulary; asked for by letter only when there are any."""
        if self.tokenizer.token_id(UNKNOWN) not in tokens:
            return []
        return self.tokenizer.unknown_characters(text, self.language) or ["a sequence of characters"]


def _named(characters: list[str]) -> str:
    """Characters so that people can find them: ß (U+00DF latin small letter sharp s)."""
    shown = [f"{char} ({code_and_name(char)})" if len(char) == 1 else char for char in characters[:_NAMED]]
    more = f" and {len(characters) - _NAMED} more" if len(characters) > _NAMED else ""
    return ", ".join(shown) + more
