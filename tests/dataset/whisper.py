"""A Whisper model of toy size that always hears the same words, made here and converted as real ones are.

Its layers add nothing, so the decoder sees only the position, and the embedding of the token that is to follow
there points the same way as that position: it speaks the sentence whatever it hears. Everything around it is real:
checkpoint, converter, tokenizer, CTranslate2, faster-whisper, its word times.
"""

from pathlib import Path

import torch
import transformers
from ctranslate2.converters import TransformersConverter
from faster_whisper.tokenizer import _LANGUAGE_CODES
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.dataset.recordings import SENTENCE

_TEXT_TOKENS = 50_257
_WIDTH = 32


def make_whisper(folder: Path, *, seconds: float = 2.0) -> Path:
    """A converted model that hears SENTENCE in the first seconds of whatever it is given."""
    tokenizer = _tokenizer()
    target = [
        "<|0.00|>",
        *(f"Ġ{word}" for word in SENTENCE),
        *(f"<|{seconds:.2f}|>", "<|endoftext|>"),
    ]
    model = _model(tokenizer, [tokenizer.token_to_id(token) for token in target])
    source = folder / "source"
    model.save_pretrained(source)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", bos_token="<|endoftext|>", unk_token="<|endoftext|>"
    ).save_pretrained(source)
    tokenizer.save(str(source / "tokenizer.json"))
    converted = folder / "converted"
    TransformersConverter(str(source), copy_files=["tokenizer.json"]).convert(str(converted))
    return converted


def _tokenizer() -> Tokenizer:
    """Whisper's layout of ids: 50 257 of text, then the special ones, then 1 501 times."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"Ġ{word}" for word in SENTENCE]
    filler = [f"Ġx{number}" for number in range(_TEXT_TOKENS - len(letters) - len(words))]
    vocabulary = {token: index for index, token in enumerate([*letters, *words, *filler])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    languages = [f"<|{code}|>" for code in _LANGUAGE_CODES]
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    tokenizer.add_special_tokens(["<|endoftext|>", "<|startoftranscript|>", *languages, *(f"<|{t}|>" for t in tasks)])
    tokenizer.add_tokens([f"<|{index * 0.02:.2f}|>" for index in range(1_501)])
    return tokenizer


def _model(tokenizer: Tokenizer, target: list[int]) -> "transformers.WhisperForConditionalGeneration":
    """Position t leads to token target[t]."""
    ends = {name: tokenizer.token_to_id("<|endoftext|>") for name in ("eos_token_id", "bos_token_id", "pad_token_id")}
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2)
    sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 8)
    start = tokenizer.token_to_id("<|startoftranscript|>")
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=tokenizer.get_vocab_size(), d_model=_WIDTH, decoder_start_token_id=start, **sizes, **ends
        )
    )
    layer, decoder = model.model.decoder.layers[0], model.model.decoder
    with torch.no_grad():
        for linear in (layer.self_attn.out_proj, layer.encoder_attn.out_proj, layer.fc2):
            linear.weight.zero_()
            linear.bias.zero_()
        decoder.embed_tokens.weight.zero_()
        decoder.embed_positions.weight.zero_()
        for position, token in enumerate(target):
            decoder.embed_positions.weight[position, position] = 100.0
            decoder.embed_tokens.weight[token, position] = 6.0
    return model
