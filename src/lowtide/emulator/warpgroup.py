"""Products of a warpgroup, which go on until they are waited for, as late as they may.

The registers of sums hold a mark of the last product on them until then: a number that is none and
tells which. A product reads shared memory when it is waited for; that it may read it from its
beginning on is left to the log (`shared_log.py`), which is told of all bytes in question.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowtide.codegen.emulated.calls import HALF, LEFT_ACROSS, RIGHT_ACROSS, WarpgroupCall
from lowtide.emulator.shadow import EmulationError
from lowtide.emulator.shared_log import SharedLog
from lowtide.records import dataclass

WARPGROUP: Final = 128

_MARK, _MARKS = 0x7FE00000, 1 << 12
"""The first mark, a NaN that no operation makes, and how many there are."""

_HIGH, _DEEP = 64, 16
_PIECE: Final = 16
"""Bytes that lie together whatever is exchanged."""

Sums = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
"""Where the numbers of an operand lie in the block's shared memory."""


@dataclass(eq=False, slots=True)
class WarpgroupProduct:
    """A product that was begun: where its operands lie, their type, and what they are added to.

    `start` are sums, or the product whose sums they will be; `done` are its own once it has ended.
    """

    left: Places
    right: Places
    type: type
    start: Sums | WarpgroupProduct
    done: Sums | None = None

    @property
    def pieces(self) -> Places:
        """The addresses of the pieces of 16 bytes that it reads."""
        both = np.concatenate([self.left.reshape(-1), self.right.reshape(-1)])
        found: Places = np.unique(both // _PIECE) * _PIECE
        return found


class Warpgroup:
    """The products of a warpgroup of a block; `number` tells which of its warpgroups it is."""

    def __init__(self, number: int, log: SharedLog) -> None:
        self.number, self.log = number, log
        self._groups: list[list[WarpgroupProduct]] = []
        self._open: list[WarpgroupProduct] = []
        self._marks: dict[int, WarpgroupProduct] = {}
        self._made = 0
        self._is_fenced = False

    @property
    def going_on(self) -> list[WarpgroupProduct]:
        """The products that nobody has waited for."""
        return [x for group in (*self._groups, self._open) for x in group]

    def call(self, words: npt.NDArray[np.int64], sums: Sums) -> None:
        """Do what the threads call, by their words, a row each; their sums are changed in place."""
        if (words != words[0]).any():
            raise EmulationError("the threads of a warpgroup call different products or waits")
        what, first, second, count = [int(x) for x in words[0, :4]]
        calls: dict[int, Callable[[], None]] = {
            WarpgroupCall.FENCE: self._fence,
            WarpgroupCall.COMMIT: self._commit,
            WarpgroupCall.WAIT: lambda: self._wait(first, sums[:, :count]),
            WarpgroupCall.PRODUCT: lambda: self._begin(what, first, second, sums[:, :count]),
        }
        calls[what & 0xFF]()

    def _fence(self) -> None:
        self._is_fenced = True

    def _commit(self) -> None:
        self._groups.append(self._open)
        self._open = []

    def _begin(self, what: int, left: int, right: int, sums: Sums) -> None:
        before = self._marked(sums)
        if before is None and not self._is_fenced:
            raise EmulationError("a product takes sums that no wgmma.fence came after")
        log = self.log
        made = WarpgroupProduct(
            _places(log, left, _HIGH, is_across=bool(what & LEFT_ACROSS)),
            _places(log, right, 2 * sums.shape[1], is_across=bool(what & RIGHT_ACROSS)),
            np.float16 if what & HALF else ml_dtypes.bfloat16,
            sums.copy() if before is None else before,
        )
        log.check_shown(made.pieces)
        self._note(made)
        self._open.append(made)
        self._made += 1
        mark = _MARK + self._made % _MARKS
        self._marks[mark] = made
        sums.view(np.uint32)[:] = mark

    def _marked(self, sums: Sums) -> WarpgroupProduct | None:
        """The product whose mark the sums have, None where they are numbers."""
        bits = sums.view(np.uint32)
        first = int(bits[0, 0])
        return self._marks.get(first) if (bits == first).all() else None

    def _note(self, product: WarpgroupProduct) -> None:
        self.log.note_pieces(product.pieces, self.number)

    def note_all(self) -> None:
        """Note what the products read that go on."""
        for product in self.going_on:
            self._note(product)

    def _wait(self, pending: int, sums: Sums) -> None:
        ended = self._groups[: max(len(self._groups) - pending, 0)]
        del self._groups[: len(ended)]
        for group in ended:
            for product in group:
                self._note(product)
                product.done = _added(product, self.log)
        self._is_fenced = False
        bits = sums.view(np.uint32)
        for mark in np.unique(bits[0]):
            known = self._marks.get(int(mark))
            if known is None or known.done is None:
                continue
            columns = np.flatnonzero((bits == mark).all(axis=0))
            sums[:, columns] = known.done
            del self._marks[int(mark)]


def _places(log: SharedLog, descriptor: int, free: int, *, is_across: bool) -> Places:
    """Where the numbers of an operand lie, by row or column and depth.

    By PTX's description of matrices in shared memory whose lines are of 128 bytes: bits 0 to 13 of
    the descriptor are the address in units of 16 bytes, 16 to 29 and 32 to 45 two distances, and 62
    and 63 the exchange of pieces, of which only that within 128 bytes is known here.
    """
    start = (descriptor & 0x3FFF) * 16
    first, second = [(descriptor >> x & 0x3FFF) * 16 for x in (16, 32)]
    if descriptor >> 62 & 3 != 1 or descriptor >> 49 & 7:
        raise EmulationError(f"a descriptor of a matrix in another layout: {descriptor:#x}")
    place, deep = np.arange(free)[:, None], np.arange(_DEEP)[None, :]
    if is_across:
        lines = place // 64 * first + deep // 8 * second + deep % 8 * 128 + place % 64 * 2
    else:
        lines = place // 8 * second + place % 8 * 128 + deep * 2
    address = start + lines
    address ^= (address >> 7 & 7) << 4
    return log.inside(address)


def _added(product: WarpgroupProduct, log: SharedLog) -> Sums:
    """The sums of the threads after a product, a row for each."""
    start = product.start.done if isinstance(product.start, WarpgroupProduct) else product.start
    assert start is not None
    left, right = [
        log.halves(x).view(product.type).astype(np.float32) for x in (product.left, product.right)
    ]
    whole = left @ right.T
    found: Sums = start + whole[_rows_and_columns(start.shape[1])]
    return found


@cache
def _rows_and_columns(count: int) -> tuple[Places, Places]:
    """The row and the column of each sum of each thread."""
    thread, number = np.arange(WARPGROUP)[:, None], np.arange(count)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + number // 2 % 2 * 8
    column = number // 4 * 8 + thread % 4 * 2 + number % 2
    return row, column
