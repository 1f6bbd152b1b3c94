"""Writing a safetensors file while hashing it: each byte is touched once, and other threads run meanwhile.

safetensors' own writer holds Python's lock until the file is whole, and a hash would need the file read again: for a
full-size checkpoint both are seconds in which training could not go on. Reading stays the library's.

Source of the format: huggingface/safetensors, README (8 bytes header length, JSON header, raw little-endian tensors).
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
PIECE_BYTES = 16 * 2**20


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write tensors and sync them to the disk.

    Args:
        path: the file; replaced when present.
        tensors: by name, on any device.

    Returns:
        The file's SHA-256, in hex.

    Raises:
        OSError: the disk is full, or does not take it for another reason.
    """
    assert sys.byteorder == "little", "the format is little-endian"
    digest = hashlib.sha256()
    with path.open("wb", buffering=0) as file:

        def put(content: bytes | memoryview) -> None:
            view = memoryview(content)
            digest.update(view)
            while view:
                view = view[file.write(view) :]

        put(_header(tensors))
        for tensor in tensors.values():
            flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            for start in range(0, flat.size, PIECE_BYTES):
                put(flat[start : start + PIECE_BYTES].data)
        os.fsync(file.fileno())
    return digest.hexdigest()


def num_bytes(tensors: Mapping[str, Tensor]) -> int:
    """What the tensors take, in memory and on disk."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    entries, at = {}, 0
    for name, tensor in tensors.items():
        end = at + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    # Spaces up to a multiple of 8, so that the tensors can be mapped into memory as they are.
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header
