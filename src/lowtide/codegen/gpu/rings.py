"""Rings of tiles in shared memory, which products of warpgroups read while later ones come.

A tile lies in lines of 128 bytes, 64 numbers: along the depth one for each row (or column), across
it one for each depth, of 64 rows after the other. Eight lines are a unit of 1,024 bytes, in which
the pieces of 16 bytes of line i are exchanged: piece j lies at j xor i, so that threads that write
below each other, and products that read there, meet in no bank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.gpu.copies import BYTES, CopyingMemory
from lowtide.codegen.gpu.product import TileKernel
from lowtide.codegen.gpu.threads import SharedArray
from lowtide.codegen.gpu.tiles import in_16_bits, piece_place, pieces_of
from lowtide.codegen.gpu.vectors import elements_by, thread_elements
from lowtide.codegen.indexing import Index
from lowtide.ir import ElementType
from lowtide.llvm.function import Integer
from lowtide.records import dataclass

NUMBER_BYTES: Final = 2

LINE: Final = 64
"""Numbers of 16 bits in a line."""

_PIECE: Final = 8
_LINES: Final = 8
"""Numbers in a piece, and lines in a unit."""

_TOGETHER: Final = 4
"""Pieces of a computed operand that a thread makes at once."""

_UNIT_BYTES: Final = 1024
_SWIZZLED: Final = 1 << 62
_ADDRESS: Final = (1 << 18) - 1


@dataclass(frozen=True, slots=True)
class Ring:
    """Stages in an array, each of so many numbers."""

    array: SharedArray
    stages: int
    numbers: int


class RingTile:
    """The tiles of an operand in the stages of a ring, `start` numbers behind where each begins."""

    def __init__(self, kernel: TileKernel, side: int, ring: Ring, start: int) -> None:
        self.kernel, self.side, self.ring, self.start = kernel, side, ring, start
        self.operand = kernel.product.hero.operands[side]
        self.pieces = pieces_of(kernel.product, side, kernel.sizes, NUMBER_BYTES)

    @property
    def is_copied(self) -> bool:
        """Whether the tile comes as copies of an array as it is."""
        is_whole = self.pieces.run * NUMBER_BYTES == BYTES
        return is_whole and self.operand in self.kernel.bound.frame.arrays

    def bring(self, stage: Integer, depth: Integer) -> None:
        """Write what a thread does to bring the tile that begins at a depth to a stage."""
        fn, sizes = self.kernel.fn, self.kernel.sizes
        begin = self._begin(stage)
        count, step = sizes.width(self.side) * sizes.depth // self.pieces.run, sizes.threads
        if self.is_copied:
            for number in range(0, count, step):
                self._copy(begin, number, depth)
            return
        together = step * min(_TOGETHER, count // step)
        with self.kernel.elements.scopes.loop(0, count, together) as loop:
            found = []
            for number in range(0, together, step):
                free, deep = self._piece(fn.add(loop.index, number))
                found.append((self._place(begin, free, deep), self._made(free, deep, depth)))
            for place, name in found:
                self.ring.array.store(fn, place, name, self.pieces.run)

    def _begin(self, stage: Integer) -> Integer:
        """Where the tile of a stage begins in the array."""
        fn = self.kernel.fn
        return fn.add(fn.mul(stage, self.ring.numbers), self.start)

    # -- pieces ----------------------------------------------------------------------------------

    def _piece(self, number: Integer) -> tuple[Integer, Integer]:
        """Where a piece of the thread begins in the tile: among rows or columns, and depths."""
        fn, sizes, pieces = self.kernel.fn, self.kernel.sizes, self.pieces
        inner = sizes.depth if pieces.along_depth else sizes.width(self.side)
        several = inner // pieces.run
        thread = self.kernel.thread
        first = fn.mul(fn.rem(thread, several), pieces.run)
        second = fn.add(fn.div(thread, several), fn.div(number, several))
        return (second, first) if pieces.along_depth else (first, second)

    def _place(self, begin: Integer, free: Integer, deep: Integer) -> Integer:
        """Where a number lies in the array, of a tile that begins there."""
        fn = self.kernel.fn
        line, inner = (free, deep) if self.pieces.along_depth else (deep, free)
        if not self.pieces.along_depth:
            begin = fn.add(begin, fn.mul(fn.div(free, LINE), LINE * self.kernel.sizes.depth))
            inner = fn.rem(inner, LINE)
        piece = fn.op(f"xor i64 {fn.div(inner, _PIECE)}, {fn.rem(line, _LINES)}")
        within = fn.add(fn.mul(piece, _PIECE), fn.rem(inner, _PIECE))
        return fn.add(fn.add(begin, fn.mul(line, LINE)), within)

    def _copy(self, begin: Integer, number: int, depth: Integer) -> None:
        """Write the copy of a piece."""
        fn = self.kernel.fn
        free, deep = self._piece(number)
        to = self.ring.array.address(fn, self._place(begin, free, deep))
        elements = elements_by(fn, self.kernel.product.target, _PIECE, CopyingMemory(to))
        where = free, fn.add(depth, deep)
        index, mask = piece_place(elements, self.kernel, self.side, self.pieces, *where)
        self._read(elements, index, mask)

    def _made(self, free: Integer, deep: Integer, depth: Integer) -> str:
        """Write the numbers of a piece where they stand; return them as they lie in memory."""
        fn, run = self.kernel.fn, self.pieces.run
        elements = thread_elements(fn, self.kernel.product.target, run if run > 1 else 0)
        elements.globals = self.kernel.elements.globals
        where = free, fn.add(depth, deep)
        index, mask = piece_place(elements, self.kernel, self.side, self.pieces, *where)
        type_ = f"<{run} x i16>" if run > 1 else "i16"
        if self.operand in self.kernel.bound.frame.arrays:
            name = self._read(elements, index, mask)
        else:
            value = elements.at(self.operand, index, self.kernel.bound.frame, mask)
            kind = self.operand.shape.element_type
            name = in_16_bits(elements, self.kernel.product.target, value, kind)
        return name if mask is None else fn.select(mask.name, type_, name, _zero(run))

    def _read(self, elements: Elements, index: Index, mask: Mask | None) -> str:
        array = self.kernel.bound.frame.arrays[self.operand]
        raw = replace(array, shape=array.shape.with_element_type(ElementType.U16))
        return elements.read(raw, index, mask).values[0].name

    # -- products --------------------------------------------------------------------------------

    def descriptor(self, stage: Integer, rows: Integer) -> Callable[[int, int], Integer]:
        """Return what gives the descriptor of 64 rows (or all columns) from a multiple of 64 on.

        It is given how many rows further, and the depth.
        """
        fn, depth = self.kernel.fn, self.kernel.sizes.depth
        several = LINE * depth  # Numbers of 64 rows, along the depth or across it.
        place = fn.add(self._begin(stage), fn.mul(fn.div(rows, LINE), several))
        base = fn.op(f"ptrtoint {self.ring.array.pointer} to i64")
        low = fn.op(f"and i64 {fn.add(base, fn.mul(place, NUMBER_BYTES))}, {_ADDRESS}")
        # Along the depth the first distance is not used, as a line holds all of it.
        first = 1 if self.pieces.along_depth else several * NUMBER_BYTES // BYTES
        fixed = _SWIZZLED | first << 16 | _UNIT_BYTES // BYTES << 32
        begin = fn.op(f"or disjoint i64 {fn.op(f'lshr i64 {low}, 4')}, {fixed}")
        deeper = 1 if self.pieces.along_depth else LINE

        def at(further: int, deep: int) -> Integer:
            numbers = further // LINE * several + deep * deeper
            return fn.add(begin, numbers * NUMBER_BYTES // BYTES)

        return at


def _zero(run: int) -> str:
    return "zeroinitializer" if run > 1 else "0"
