"""Work that the threads of a warp do together: exchanges of values, products of small matrices."""

from __future__ import annotations

from functools import cache
from typing import Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

WARP: Final = 32

Lanes = npt.NDArray[np.int32]
"""The words of the threads of a warp, a row each."""


def exchange(lanes: Lanes) -> None:
    """Give each thread word 0 of the one whose number differs by the bits in its word 1."""
    partners = np.arange(len(lanes)) ^ lanes[:, 1]
    lanes[:, 0] = lanes[partners, 0]


def matrices(lanes: Lanes) -> None:
    """Give each thread a word of each of four matrices of 8x8 numbers of 16 bits.

    Words 0 to 3 of thread 8 i + r are row r of matrix i. Then word i of thread t are the numbers
    2 (t mod 4) and the next of row t / 4 of matrix i.
    """
    rows = lanes[:, :4].reshape(4, 8, 4)
    lanes[:, :4] = rows.reshape(4, WARP).T


def turned_matrices(lanes: Lanes) -> None:
    """Do what `matrices` does, of the matrices with rows and columns exchanged."""
    halves = np.ascontiguousarray(lanes[:, :4]).view(np.int16).reshape(4, 8, 8)
    rows = np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.int32)
    lanes[:, :4] = rows.reshape(4, WARP).T


def bfloat_product(lanes: Lanes) -> None:
    """Do what `_product` says, of bf16 numbers."""
    _product(lanes, ml_dtypes.bfloat16)


def half_product(lanes: Lanes) -> None:
    """Do what `_product` says, of f16 numbers."""
    _product(lanes, np.float16)


def _product(lanes: Lanes, type_: type) -> None:
    """Add the product of a 16x16 and a 16x8 matrix to a 16x8 one, spread over the warp.

    Words 0 to 3 are pairs of the first, 4 and 5 of the second, 6 to 9 are the sums, 32-bit floats.
    """
    pairs = np.ascontiguousarray(lanes[:, :6]).view(type_).astype(np.float32).reshape(WARP, 6, 2)
    sums = np.ascontiguousarray(lanes[:, 6:]).view(np.float32)
    left, right = np.empty((16, 16), np.float32), np.empty((16, 8), np.float32)
    total = np.empty((16, 8), np.float32)
    left[_places()[0]], right[_places()[1]] = pairs[:, :4], pairs[:, 4:]
    total[_places()[2]] = sums
    lanes[:, 6:] = (left @ right + total)[_places()[2]].view(np.int32)


@cache
def _places() -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], ...]:
    """Rows and columns of what each lane holds: of both operands, and of the sums."""
    lane = np.arange(WARP)[:, None, None]
    group, pair = lane // 4, lane % 4 * 2
    word, half = np.arange(4)[None, :, None], np.arange(2)[None, None, :]
    left = (group + word % 2 * 8, pair + word // 2 * 8 + half)
    right = (pair + word[:, :2] * 8 + half, group + 0 * word[:, :2] + 0 * half)
    number = np.arange(4)[None, :]
    flat = np.arange(WARP)[:, None]
    sums = (flat // 4 + number // 2 * 8, flat % 4 * 2 + number % 2)
    return left, right, sums
