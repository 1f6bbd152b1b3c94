"""The decode engine: sentences to audio codes, several side by side, one pass over the weights for a code of each.

Sentences join and leave between two codes (continuous batching; Yu et al. 2022, Orca). Each has a slot of a static
key-value cache and random numbers of its own, so what it says does not depend on what is spoken beside it.

On a GPU a code is one replay of a CUDA graph: everything that a step reads and writes lies in tensors of fixed places,
codes are drawn on the device, and the host learns of a code while the next one is computed.

Shapes: B slots, N of them in use (always the first ones), P = 32 latents, L text tokens, M codes, H heads, C channels a
head, T cached positions, D model width, V code vocabulary.
"""

import hashlib
import logging
from collections import deque
from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.errors import is_out_of_memory
from utils.inference.adapters import Adapter, Adapters
from utils.inference.cached_attention import (
    MASK_STEP,
    AttendLayer,
    attend_at_once,
    attend_by_slot,
    has_flash_attention,
    new_cache,
)
from utils.inference.products import HALF, PreparedBlock
from utils.inference.sentence import Sentence, draw
from utils.model.attention import without_cudnn_attention
from utils.model.gpt import Block, XttsGpt
from utils.model.packing import round_up
from utils.model.shapes import NUM_LATENTS
from utils.model.voices import kept
from utils.options import SpeechPrecision
from utils.performance_utils.device import pinning_fault

FILLER = 1
"""Stock fills the prompt with this id, so its repetition penalty counts code 1 as spoken; we do as it does."""
LENGTH_STEP = 128
"""Positions by which a cache on a CPU grows."""
MAX_VOICES = 16
"""Voices whose keys and values are kept: 32 positions, 8 MB each at full size in float32."""

log = logging.getLogger(__name__)


class Decoder:
    """A GPT ready to speak, and the slots in which sentences are decoded. For one thread.

    Args:
        gpt: in evaluation mode, on its device. Later changes of its weights are not seen.
        slots: sentences decoded side by side at most.
        precision: of the blocks' matrix products; on a GPU also of the cache.
        release: free the GPT's own weights of the products, which then speaks through this decoder only.

    Source: coqui-tts, GPT.generate; its order of repetition penalty, temperature, top-k and top-p is Hugging Face's.
    Stock runs the whole text again for the latents; the hidden states seen while decoding are the same.
    """

    def __init__(
        self, gpt: XttsGpt, *, slots: int = 1, precision: SpeechPrecision = "fp32", release: bool = False
    ) -> None:
        self.gpt, self.precision, self.device = gpt, precision, gpt.final_norm.weight.device
        self._is_gpu = is_gpu(self.device)
        if fault := pinning_fault() if self._is_gpu else "":
            log.warning("speaking without page-locked memory: %s", fault)
        self._is_pinned = self._is_gpu and not fault
        self._layers = [
            PreparedBlock(block, precision, release=release) for block in gpt.gpt.h if isinstance(block, Block)
        ]
        assert len(self._layers) == len(gpt.gpt.h), "a wrapped block cannot be prepared"
        self._half = HALF.get(precision) if self._is_gpu else None
        self._is_ragged = self._half is not None and has_flash_attention(self.device, self._half)
        """Whether each slot attends to as many positions as it has, by the variable-length kernel."""
        self._adapters = Adapters(self._layers, self.device, self._half or torch.float32)
        self._max_codes = gpt.shape.max_audio_tokens - 3
        # One more position and code: a GPU has begun the next step when the host learns that a sentence ended.
        self._longest = round_up(NUM_LATENTS + gpt.shape.max_text_tokens + 3 + self._max_codes + 1, MASK_STEP)
        self.reset(slots)

    def reset(self, slots: int) -> None:
        """Drop all sentences and decode up to `slots` side by side from now on; the prepared weights stay.

        What the old slots had is freed before the new ones are allocated.

        Raises:
            RuntimeError: memory does not suffice even so; another reset, to fewer slots, may succeed.
        """
        self.slots = slots
        self.sentences: list[Sentence] = []
        """Those that are being decoded, slot by slot."""
        self._underway: deque[tuple[list[Sentence], Tensor, torch.cuda.Event | None]] = deque()
        """Steps whose codes the host does not know yet."""
        self.graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        """Captured steps by slots and positions, with the tensor of their result."""
        self._voices: dict[tuple[Adapter | None, bytes], Tensor] = {}
        """Keys and values of voices, the one that spoke last at the end."""
        self._cache = self._positions = self._counts = self._last = self._spoken = torch.empty(0)
        self._sampling = self._random = self._hidden = torch.empty(0)
        if self._is_gpu:
            torch.cuda.empty_cache()
        shape = self.gpt.shape
        new = partial(torch.zeros, device=self.device)
        self._cache = self._new_cache(self._longest if self._is_gpu else LENGTH_STEP)
        """[layers, 2, B, H, T, C]."""
        self._cached = [0] * slots
        """Positions in each slot's cache, as the host counts them."""
        self._positions, self._counts = (new(slots, dtype=torch.long) for _ in range(2))
        """The same on the device, and each slot's number of codes; [B]."""
        self._last = new(slots, shape.width)
        """Input of the next step."""
        self._spoken = new(slots, shape.audio_rows, dtype=torch.bool)
        """Codes that the repetition penalty counts."""
        self._sampling = new(slots, 4)
        """Temperature, top-k, top-p and penalty."""
        self._random = new(slots, self._max_codes + 1)
        self._hidden = new(slots, self._max_codes + 1, shape.width)
        self._adapters.reset(slots)
        if self._is_gpu:
            self._capture_all()

    @property
    def _rows(self) -> tuple[Tensor, ...]:
        """What a slot has beside its cache."""
        state = (self._positions, self._counts, self._last, self._spoken, self._sampling, self._random, self._hidden)
        return (*state, self._adapters.shares)

    @property
    def num_bytes(self) -> int:
        """Memory of the prepared weights and of the slots; weights that are the GPT's own are not counted."""
        voices = self._voices.values()
        return sum(
            (
                *(layer.num_bytes for layer in self._layers),
                *(tensor.nbytes for tensor in (*self._rows, self._cache, *voices, *self._adapters.tables)),
            )
        )

    def takes(self, adapter: Adapter | None) -> bool:
        """Whether a sentence with these additions can join now: captured steps know those that they were made with."""
        has_room = len(self.sentences) < self.slots
        return has_room and not (self._is_gpu and self.sentences and adapter not in self._adapters)

    @without_cudnn_attention()
    @torch.inference_mode()
    def join(self, sentence: Sentence) -> None:
        """Read a sentence's prompt into a free slot; the next step decodes its first code."""
        assert self.takes(sentence.adapter), "no slot is free"
        shape, slot = self.gpt.shape, len(self.sentences)
        if (adapter := sentence.adapter) is not None and adapter not in self._adapters:
            self._adapters.hold(adapter, [one.adapter for one in self.sentences])
            if self._is_gpu:
                self.reset(self.slots)
        self._adapters.choose(slot, adapter)
        self._adapters.apply(slot, slot + 1, [adapter])
        sentence.limit = max(1, min(sentence.limit, self._max_codes))
        text = self._embed_text(sentence.tokens)
        self._reserve(NUM_LATENTS + text.size(1) + sentence.limit)
        self._cache[:, :, slot, :, :NUM_LATENTS] = self._read_voice(sentence)
        self._cached[slot] = NUM_LATENTS
        # All but the start code: that one is the first step's input, like every code after it.
        self._read(text[:, :-1], slot)
        self._positions[slot], self._counts[slot] = self._cached[slot], 0
        self._last[slot] = text[0, -1]
        self._spoken[slot] = False
        self._spoken[slot, [FILLER, shape.start_audio]] = True
        how = sentence.settings
        self._sampling[slot] = torch.tensor([how.temperature, how.top_k, how.top_p, how.repetition_penalty])
        self._random[slot, : sentence.limit] = torch.rand(sentence.limit, generator=sentence.generator).to(self.device)
        self.sentences.append(sentence)

    @without_cudnn_attention()
    @torch.inference_mode()
    def step(self) -> list[Sentence]:
        """Decode one more code of each sentence.

        Returns:
            Those that have ended, by the stop code or their limit; their slots are free again. On a GPU they are known
            one step late.
        """
        num = len(self.sentences)
        is_greedy = all(sentence.settings.temperature == 0 for sentence in self.sentences)
        if self._is_gpu:
            result = self._replay(num)
            drawn = torch.empty(result.shape, dtype=result.dtype, pin_memory=self._is_pinned)
            drawn.copy_(result, non_blocking=self._is_pinned)
            event = torch.cuda.Event()
            event.record()
        else:
            self._adapters.apply(0, num, [sentence.adapter for sentence in self.sentences])
            drawn, event = self._advance(num, attend_by_slot(self._cache, self._cached[:num]), is_greedy), None
        for slot in range(num):
            self._cached[slot] += 1
        self._underway.append((list(self.sentences), drawn, event))
        ended = []
        while len(self._underway) > self._is_gpu:
            ended += self._learn(*self._underway.popleft())
        for sentence in ended:
            self.leave(sentence)
        return ended

    @torch.inference_mode()
    def leave(self, sentence: Sentence) -> None:
        """Free a sentence's slot, whether or not it has ended; the last one in use takes its place."""
        slot, last = self.sentences.index(sentence), len(self.sentences) - 1
        sentence.hidden = self.hidden(sentence).clone()
        if slot != last:
            cached = self._cached[last]
            self._cache[:, :, slot, :, :cached] = self._cache[:, :, last, :, :cached]
            for rows in self._rows:
                rows[slot] = rows[last]
            self._cached[slot], self.sentences[slot] = cached, self.sentences[last]
        self.sentences.pop()
        if not self.sentences:
            self._underway.clear()

    def hidden(self, sentence: Sentence) -> Tensor:
        """Hidden states of the codes so far, [M, D]; a view, until the sentence has left."""
        if sentence.hidden is not None:
            return sentence.hidden
        return self._hidden[self.sentences.index(sentence), : len(sentence.codes)]

    def _learn(self, sentences: list[Sentence], drawn: Tensor, event: "torch.cuda.Event | None") -> list[Sentence]:
        """Give each sentence its code of one step; returns those that ended with it."""
        if event is not None:
            event.synchronize()
        ended = []
        for sentence, (code, stop_logprob) in zip(sentences, drawn.tolist(), strict=True):
            if sentence.hidden is not None:
                continue  # it had left when this step was begun
            sentence.codes.append(int(code))
            sentence.stop_logprobs.append(stop_logprob)
            sentence.stopped = int(code) == self.gpt.shape.stop_audio
            if sentence.stopped or len(sentence.codes) == sentence.limit:
                ended.append(sentence)
        return ended

    def _advance(self, num: int, attend: AttendLayer, is_greedy: bool) -> Tensor:
        """One code of each of the first `num` slots, nothing read back: codes and stop log probabilities, [num, 2]."""
        gpt, rows = self.gpt, torch.arange(num, device=self.device)
        x = self._last[:num, None]
        for number, layer in enumerate(self._layers):
            x = layer.finish(x, attend(number, *layer.project(x)))
        hidden = gpt.final_norm(gpt.gpt.ln_f(x[:, 0]))
        scores = gpt.mel_head(hidden).float()
        counts = self._counts[:num]
        # A slot that a graph computes though it is unused counts on; it must stay within its tensors.
        place = counts.clamp(max=self._max_codes)
        random = self._random[:num].gather(1, place[:, None])
        codes = draw(scores, self._spoken[:num], self._sampling[:num], random, is_greedy=is_greedy)
        self._hidden[rows, place] = hidden
        # Not by indexing: the host's True would be copied to the device, which waits for it.
        self._spoken[:num].scatter_(1, codes[:, None], True)
        counts += 1
        self._positions[:num] += 1
        self._last[:num] = gpt.mel_embedding(codes) + gpt.mel_pos_embedding.emb(place + 1)
        stops = scores.log_softmax(1)[:, self.gpt.shape.stop_audio]
        return torch.stack([codes.to(stops.dtype), stops], dim=1)

    def _step_at_once(self, num: int, length: int) -> Tensor:
        """A step that reads no value of the host; see `attend_at_once`."""
        self._adapters.apply(0, num)
        attend = attend_at_once(self._cache, self._positions[:num], length=length, is_ragged=self._is_ragged)
        return self._advance(num, attend, False)

    def _replay(self, num: int) -> Tensor:
        """A step by the smallest CUDA graph that holds it; by single kernels where capturing failed."""
        longest = max(self._cached[:num]) + 1
        fitting = [key for key in self.graphs if key[0] >= num and key[1] >= longest]
        if not fitting:
            return self._step_at_once(num, self._longest)
        graph, result = self.graphs[min(fitting)]
        graph.replay()
        return result[:num]

    @without_cudnn_attention()
    @torch.inference_mode()
    def _capture_all(self) -> None:
        """Capture the step for a few numbers of slots and positions, before anyone waits for speech.

        If a capture fails, for example because a kernel waits for the device, steps run without graphs.
        """
        sizes = sorted({1, -(-self.slots // 2), self.slots})
        parts = (1,) if self._is_ragged else (4, 2, 1)
        lengths = [round_up(-(-self._longest // part), MASK_STEP) for part in parts]
        side, pool = torch.cuda.Stream(), None
        side.wait_stream(torch.cuda.current_stream())
        try:
            for size, length in product(sizes, lengths):
                with torch.cuda.stream(side):
                    # Kernels are chosen and workspaces allocated by the first calls, which a capture must not see.
                    for _ in range(2):
                        self._step_at_once(size, length)
                graph = torch.cuda.CUDAGraph()
                # Another thread, such as a training's, may call CUDA meanwhile.
                with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
                    result = self._step_at_once(size, length)
                self.graphs[size, length], pool = (graph, result), graph.pool()
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            log.warning("speaking without CUDA graphs: capturing failed: %s", error)
            self.graphs.clear()
        torch.cuda.current_stream().wait_stream(side)
        for rows in self._rows:
            rows.zero_()

    def _new_cache(self, length: int) -> Tensor:
        return new_cache(
            self.gpt.shape, self.slots, length, self._half or torch.float32, self.device, is_ragged=self._is_ragged
        )

    def _reserve(self, positions: int) -> None:
        """Make the cache long enough for a sentence of this many positions."""
        length = self._cache.size(4)
        if positions <= length:
            return
        grown = self._new_cache(round_up(positions, LENGTH_STEP))
        grown[:, :, :, :, :length] = self._cache
        self._cache = grown

    def _embed_text(self, tokens: list[int]) -> Tensor:
        """START text STOP and the start code with their positions, [1, L + 3, D]."""
        gpt, shape = self.gpt, self.gpt.shape
        assert len(tokens) <= shape.max_text_tokens, "the caller splits long text"
        text = torch.tensor([[shape.start_text, *tokens, shape.stop_text]], device=self.device)
        start = torch.tensor([[shape.start_audio]], device=self.device)
        rows = gpt.text_embedding(text) + gpt.text_pos_embedding.first(text.size(1))
        return torch.cat([rows, gpt.mel_embedding(start) + gpt.mel_pos_embedding.first(1)], dim=1)

    def _read_voice(self, sentence: Sentence) -> Tensor:
        """Keys and values of a voice, [layers, 2, H, P, C]: it stands before all else, so they never change."""
        latents = sentence.latents
        content = latents.detach().float().cpu().contiguous().numpy().tobytes()
        key = sentence.adapter, hashlib.sha256(content).digest()
        return kept(self._voices, key, MAX_VOICES, partial(self._new_voice, latents.to(self._last)))

    def _new_voice(self, x: Tensor) -> Tensor:
        stored: list[Tensor] = []
        for layer in self._layers:
            q, new = layer.project(x)
            stored.append(new[:, 0])
            x = layer.finish(x, F.scaled_dot_product_attention(q, new[0], new[1], is_causal=True))
        return torch.stack(stored)

    def _read(self, x: Tensor, slot: int) -> None:
        """A prompt [1, n, D] into a slot's cache, after what is there."""
        start = self._cached[slot]
        end = start + x.size(1)
        # Each new position attends to all before it and to itself.
        seen = torch.ones(x.size(1), end, dtype=torch.bool, device=self.device).tril(start)
        for number, layer in enumerate(self._layers):
            q, new = layer.project(x)
            own = self._cache[number, :, slot, None]
            own[:, :, :, start:end] = new
            keys, values = own[:, :, :, :end]
            x = layer.finish(x, F.scaled_dot_product_attention(q, keys, values, attn_mask=seen))
        self._cached[slot] = end


def is_gpu(device: torch.device) -> bool:
    """Whether steps are captured and read one step late."""
    return device.type == "cuda"
