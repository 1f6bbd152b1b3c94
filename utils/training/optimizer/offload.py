"""AdamW with master weights and moments in CPU memory: the GPU holds only weights and gradients.

A step goes through the parameters chunk by chunk: gradients come into one of two staging buffers while the processor
updates the chunk before, and updated weights go back meanwhile. The device needs no memory for it; what the machine
needs is in `utils.hardware.estimates`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from utils.hardware.estimates import OFFLOAD_CHUNK
from utils.training.optimizer.plain_adamw import PlainAdamW, Scale, fused_update, scaled

CUT = 64
"""Parameters are cut at multiples of so many values: the fused update then takes the same vectors as of the whole."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a parameter in a chunk."""

    parameter: Tensor
    part: slice
    """Of the flat parameter."""
    place: slice
    """In the chunk."""


class OffloadedAdamW(PlainAdamW):
    """The same update as fused AdamW, bit for bit, computed by the processor on weights and moments of its own.

    A step moves 4 bytes a parameter from the GPU (gradients) and 4 back (weights). Parameters may lie on any device,
    the processor's included. Weights that were changed by others since the last step, such as those of a checkpoint,
    are read again (torch counts these changes; those made through `.data` it does not); the state of this optimizer is
    that of AdamW.

    Args:
        params: parameters or groups of them, float32 and contiguous.
        lr, betas, eps, weight_decay: as of torch.optim.AdamW.
        chunk: values that are moved at a time.
    """

    def __init__(self, params: Any, *, chunk: int = OFFLOAD_CHUNK, **settings: Any) -> None:
        super().__init__(params, **settings)
        assert chunk >= CUT
        self.chunk = chunk
        self._chunks: dict[Tensor, list[Chunk]] = {}
        """Of each group, by its first parameter."""
        self._seen: dict[Tensor, tuple[int, int]] = {}
        """By parameter: where and which version the weights were that the master copy equals."""
        self._staging: list[Tensor] = []
        self._lanes: _Lanes | None = None

    @property
    def staging_bytes(self) -> int:
        """What both staging buffers take."""
        return sum(buffer.nbytes for buffer in self._staging)

    def update(self, parameters: list[Tensor], group: dict[str, Any], scale: Scale) -> None:
        lanes, live = self._prepared(group["params"]), set(parameters)
        for parameter in parameters:
            self._state_of(parameter)["step"] += 1
        chunks = [chunk for chunk in self._chunks[group["params"][0]] if chunk.of(live)]
        lanes.begin()
        wait = self._fetch(chunks[0], live, 0)
        for number, chunk in enumerate(chunks):
            now = wait
            if number + 1 < len(chunks):
                # The other buffer: what it held was used up before this chunk's turn.
                wait = self._fetch(chunks[number + 1], live, number + 1)
            now()
            scaled(self._staging[number % 2], scale)
            self._move(chunk.of(live), chunk.master, self._staging[number % 2], group)
            lanes.send(chunk.of(live), chunk.master)
        lanes.end()
        self._seen |= {parameter: _version(parameter) for parameter in parameters}

    def _prepared(self, parameters: list[Tensor]) -> "_Lanes":
        """Chunks of a group's parameters, made once, and what moves them."""
        device = parameters[0].device
        if parameters[0] not in self._chunks:
            assert all(p.device == device and p.dtype == torch.float32 and p.is_contiguous() for p in parameters)
            self._chunks[parameters[0]] = made = [
                Chunk(pieces, _host(length, device)) for pieces, length in chunks_of(parameters, self.chunk)
            ]
            longest = max(len(chunk.master) for chunk in made)
            if not self._staging or len(self._staging[0]) < longest:
                self._staging = []  # freed before larger ones are made
                self._staging = [_host(longest, device) for _ in range(2)]
        if self._lanes is None or self._lanes.device != device:
            self._lanes = _Lanes(device)
        return self._lanes

    def _fetch(self, chunk: "Chunk", live: set[Tensor], number: int) -> Callable[[], None]:
        """Begin to bring a chunk's gradients, and weights that the master copy does not equal; gives the wait."""
        assert self._lanes is not None
        buffer, copies = self._staging[number % 2], []
        for piece in chunk.of(live):
            assert piece.parameter.grad is not None
            copies.append((buffer[piece.place], piece.parameter.grad, piece.part))
            if self._seen.get(piece.parameter) != _version(piece.parameter):
                copies.append((chunk.master[piece.place], piece.parameter.detach(), piece.part))
        return self._lanes.fetch(copies)

    def _move(self, pieces: list[Piece], master: Tensor, gradients: Tensor, group: dict[str, Any]) -> None:
        states = []
        for piece in pieces:
            state = self.state[piece.parameter]
            moments = {name: state[name].view(-1)[piece.part] for name in ("exp_avg", "exp_avg_sq")}
            # The kernel counts the step; a parameter has one count for all its pieces, and it was counted already.
            states.append(moments | {"step": state["step"] - 1})
        fused_update(
            [master[piece.place] for piece in pieces], [gradients[piece.place] for piece in pieces], states, group
        )

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        for name, value in state.items():
            # torch's own load_state_dict puts moments where the parameter is.
            state[name] = value.to("cpu")
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            # Not pinned: only the processor touches them.
            state["exp_avg"] = torch.zeros(parameter.shape, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros(parameter.shape, dtype=torch.float32)
        return state


@dataclass(frozen=True)
class Chunk:
    """Parts of parameters that are moved together."""

    pieces: list[Piece]
    master: Tensor
    """Their weights in the machine's memory, one after the other."""

    def of(self, live: set[Tensor]) -> list[Piece]:
        """The pieces of these parameters."""
        return [piece for piece in self.pieces if piece.parameter in live]


def chunks_of(parameters: Iterable[Tensor], size: int) -> list[tuple[list[Piece], int]]:
    """Parameters one after the other, cut where a chunk of `size` values is full; each chunk with its length."""
    chunks: list[tuple[list[Piece], int]] = []
    pieces: list[Piece] = []
    at = 0
    for parameter in parameters:
        start, end = 0, parameter.numel()
        while start < end:
            room = (size - at) if end - start <= size - at else (size - at) // CUT * CUT
            if not room:
                chunks.append((pieces, at))
                pieces, at = [], 0
                continue
            count = min(end - start, room)
            part, place = slice(start, start + count), slice(at, at + count)
            pieces.append(Piece(parameter=parameter, part=part, place=place))
            start, at = start + count, at + count
    return [*chunks, (pieces, at)] if pieces else chunks


class _Lanes:
    """Copies to and from a device, each way on a stream of its own beside what is computed; on a CPU plain copies.

    Args:
        device: where the parameters are.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        on_gpu = device.type == "cuda"
        self._in = torch.cuda.Stream(device) if on_gpu else None
        self._out = torch.cuda.Stream(device) if on_gpu else None

    def begin(self) -> None:
        """Let copies wait for what was begun on the device: the backward pass writes gradients and reads weights."""
        if self._in is not None and self._out is not None:
            now = torch.cuda.current_stream(self.device)
            self._in.wait_stream(now)
            self._out.wait_stream(now)

    def fetch(self, copies: list[tuple[Tensor, Tensor, slice]]) -> Callable[[], None]:
        """Begin to copy parts of flat device tensors to the machine's memory; gives what waits for their end."""
        with torch.cuda.stream(self._in):
            for target, source, part in copies:
                target.copy_(source.reshape(-1)[part], non_blocking=True)
            return self._in.record_event().synchronize if self._in is not None else _arrived

    def send(self, pieces: list[Piece], master: Tensor) -> None:
        """Begin to copy weights back; the master copy changes again only after the next step's gradients are there."""
        with torch.cuda.stream(self._out):
            for piece in pieces:
                piece.parameter.view(-1)[piece.part].copy_(master[piece.place], non_blocking=True)

    def end(self) -> None:
        """Let what the device does next wait for the weights."""
        if self._out is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._out)


def _arrived() -> None:
    """A copy on the processor has ended when it returns."""


def _host(length: int, device: torch.device) -> Tensor:
    """Memory that a GPU copies to and from without help: pinned; there is nothing to pin for a CPU."""
    return torch.empty(length, dtype=torch.float32, pin_memory=device.type == "cuda")


def _version(parameter: Tensor) -> tuple[int, int]:
    """Changes when somebody writes to a parameter or gives it other memory."""
    return parameter.data_ptr(), parameter._version
