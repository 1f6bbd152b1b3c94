"""Low-rank additions to a decoder's products: several voices speak side by side over one copy of the base's weights.

What a LoRA run learned is added to each product instead of to the weights: y = x W^T + (x A^T) B. On a GPU the
additions of all voices lie behind each other in one tensor, and a row's shares, 0 or 1, choose among them: a captured
step reads no value of the host.

Shapes: N rows (sentences, or positions of one), I inputs, O outputs, r rank of a voice, R ranks of all held voices, B
slots.

Source: Hu et al. 2021, "LoRA"; Sheng et al. 2023, "S-LoRA", for additions of several models in one batch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.inference.products import PRODUCTS, PreparedBlock, Product

MAX_ADAPTERS = 8
"""Voices whose additions a decoder holds, of 63 MB each at full size, rank 32 and float32."""


@dataclass(eq=False, frozen=True)
class Adapter:
    """What a LoRA run learned, in the order of `PRODUCTS` of each block."""

    pairs: tuple[tuple[Tensor, Tensor], ...]
    """A [r, I] and B [r, O] of each product."""

    @property
    def rank(self) -> int:
        return len(self.pairs[0][0])

    @property
    def num_bytes(self) -> int:
        return sum(side.nbytes for pair in self.pairs for side in pair)


class Adapters:
    """The additions that a decoder holds; for one thread.

    Args:
        layers: the decoder's blocks; their products are replaced by ones that add.
        device: of the products.
        dtype: of the products' results.
    """

    def __init__(self, layers: Sequence[PreparedBlock], device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype
        self._held = dict[Adapter, tuple[int, int]]()
        """Each one's first rank and the one after its last, the one that joined last at the end."""
        self._tables: list[tuple[Tensor, Tensor]] = []
        """[R, I] and [R, O] of each product."""
        self.shares = torch.empty(0)
        """What each slot's sentence adds, [B, R]."""
        self._rows, self._spans = self.shares, list[tuple[int, int]]()
        for first, layer in enumerate(layers):
            for number, name in enumerate(PRODUCTS, start=first * len(PRODUCTS)):
                setattr(layer, name, partial(self._multiply, number, getattr(layer, name)))

    @property
    def tables(self) -> list[Tensor]:
        """All additions."""
        return [side for pair in self._tables for side in pair]

    def __contains__(self, adapter: Adapter | None) -> bool:
        return adapter is None or adapter in self._held

    def reset(self, slots: int) -> None:
        """Let no slot add anything."""
        num = max((last for _, last in self._held.values()), default=0)
        self.shares = torch.zeros(slots, num, device=self._device, dtype=self._dtype)

    def hold(self, adapter: Adapter, others: Sequence[Adapter | None]) -> None:
        """Take additions, in place of the least recently used ones.

        Args:
            adapter: not among those that are held.
            others: additions of the sentences that are being decoded, slot by slot; they stay.
        """
        unused = [one for one in self._held if one not in others]
        kept = [one for one in self._held if one not in unused[: max(0, len(self._held) + 1 - MAX_ADAPTERS)]]
        held, first = dict[Adapter, tuple[int, int]](), 0
        for one in (*kept, adapter):
            held[one] = (first, first + one.rank)
            first += one.rank
        # Nothing is held where memory runs out meanwhile: the next sentence of each voice brings its additions again.
        self._held, self._tables, self._spans = {}, [], []
        for sides in zip(*(one.pairs for one in held), strict=True):
            down, up = (torch.cat(side).to(self._device, self._dtype) for side in zip(*sides, strict=True))
            self._tables.append((down, up))
        self._held = held
        self.reset(len(self.shares))
        for slot, other in enumerate(others):
            self.choose(slot, other)

    def choose(self, slot: int, adapter: Adapter | None) -> None:
        """Have the rows of a slot add these additions, or nothing."""
        self.shares[slot] = 0
        if adapter is not None:
            first, last = self._held.pop(adapter)
            self._held[adapter] = first, last
            self.shares[slot, first:last] = 1

    def apply(self, first: int, last: int, adapters: Iterable[Adapter | None] | None = None) -> None:
        """From now on the products are asked for rows of these slots.

        Args:
            first: slot; its shares are those of all rows if it is the only one.
            last: the slot after the last one.
            adapters: of their sentences: others are not computed. All that are held when not given.
        """
        self._rows = self.shares[first:last]
        if adapters is None:
            self._spans = [(0, self.shares.size(1))] * bool(self._held)
        else:
            self._spans = [self._held[one] for one in dict.fromkeys(adapters) if one is not None]

    def _multiply(self, number: int, plain: Product, x: Tensor) -> Tensor:
        """[N, I] to [N, O]."""
        out = plain(x)
        for first, last in self._spans:
            down, up = self._tables[number]
            inner = F.linear(x.to(down.dtype), down[first:last]) * self._rows[:, first:last]
            out = torch.addmm(out, inner, up[first:last])
        return out
