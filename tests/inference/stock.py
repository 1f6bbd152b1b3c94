"""Stock coqui-tts speaking: loaded as its users load it, decoded greedily."""

from pathlib import Path

import torch
from torch import Tensor

from utils.model.voices import Voice


def load_stock(folder: Path):
    """Stock's Xtts with a model folder, through its public Xtts.load_checkpoint."""
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models.xtts import Xtts

    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    model = Xtts(config)
    model.load_checkpoint(config, checkpoint_dir=str(folder), eval=True, strict=True)
    return model


@torch.inference_mode()
def stock_greedy(stock, tokens: list[int], voice: Voice, repetition_penalty: float) -> tuple[Tensor, Tensor]:
    """Codes [M] and latents [1, M, D] of one text: the steps of Xtts.inference, without sampling."""
    text = torch.tensor([tokens])
    codes = stock.gpt.generate(
        cond_latents=voice.latents,
        text_inputs=text,
        do_sample=False,
        num_beams=1,
        repetition_penalty=repetition_penalty,
        output_attentions=False,
    )
    latents = stock.gpt(
        text,
        torch.tensor([text.shape[-1]]),
        codes,
        torch.tensor([codes.shape[-1] * stock.gpt.code_stride_len]),
        cond_latents=voice.latents,
        return_attentions=False,
        return_latent=True,
    )
    return codes[0], latents


@torch.inference_mode()
def stock_sound(stock, latents: Tensor, voice: Voice) -> Tensor:
    """What stock's decoder makes of latents, [1, N]."""
    return stock.hifigan_decoder(latents, g=voice.embedding).view(1, -1)
