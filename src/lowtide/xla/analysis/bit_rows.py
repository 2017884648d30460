"""Square matrices of bits, packed by rows, lowest bits first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_SWAPS: Final = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
"""Which bits of a block of 8 by 8 to exchange with those so many places further on."""


def packed(rows: Sequence[int]) -> Bytes:
    """Return integers as rows of bits: as many columns as there are rows, bit 0 first."""
    width = (len(rows) + 7) // 8
    data = b"".join([row.to_bytes(width, "little") for row in rows])
    return np.frombuffer(data, np.uint8).reshape(len(rows), width)


def transposed(rows: Bytes) -> Bytes:
    """Return the transpose of a square matrix of bits.

    Blocks of 8 by 8 bits are turned within a word (Warren, "Hacker's Delight", 2002).
    """
    count, width = rows.shape
    padded = np.zeros((width * 8, width), np.uint8)
    padded[:count] = rows
    blocks = np.ascontiguousarray(padded.reshape(width, 8, width).transpose(2, 0, 1))
    words = blocks.view("<u8")
    for distance, mask in _SWAPS:
        changed = (words ^ (words >> np.uint64(distance))) & np.uint64(mask)
        words ^= changed ^ (changed << np.uint64(distance))
    turned = blocks.transpose(0, 2, 1).reshape(width * 8, width)
    return np.ascontiguousarray(turned[:count])


def set_bits(row: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the bits that are set, ascending."""
    data = np.frombuffer(row.to_bytes((row.bit_length() + 7) // 8, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little"))
