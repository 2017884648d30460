"""Work that the threads of a warp do together: exchanges of values, loads of small matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.codegen.emulated.calls import Wait
from lowtide.codegen.emulated.products import WARP

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


WARP_WAITS: Final[dict[int, Callable[[Lanes], None]]] = {
    Wait.EXCHANGE: exchange,
    Wait.MATRICES: matrices,
    Wait.TURNED_MATRICES: turned_matrices,
}
"""What a warp does all of whose threads wait for it, but for products."""
