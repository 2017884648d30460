"""Squares of arrays that are transposed on their way into vectors.

An element's neighbours along the lanes may lie far apart in memory, while those along another loop
lie side by side. Then a tile, of the lanes and some steps of that loop, is loaded along the latter,
transposed in registers and kept on the stack: a vector of lanes for each step.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.shuffles import transposed
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Variable
from lowtide.codegen.value import Value
from lowtide.ir import ElementType
from lowtide.llvm.function import Integer
from lowtide.records import dataclass

LINE: Final = 64
"""Bytes of a row that a tile has, so that it takes whole lines of the cache."""

_PIECE: Final = 16
"""Bytes of a row that are loaded at once: shuffles within blocks of so many cost least."""

MOST: Final = 8
"""Tiles on the stack at once, at most."""


def side_of(type_: ElementType, lanes: int, size: int) -> int:
    """Return how many steps of a loop of `size` are loaded at once; 1 where no tiles are made."""
    most = min(_PIECE // type_.nbytes, lanes, size)
    return 1 << most.bit_length() - 1 if most else 1


@dataclass(eq=False, slots=True)
class TransposedTile:
    """The steps `start` + `row` of a loop of `size` steps, while their vectors are made.

    `row` is the innermost loop's variable, which counts up to `rows`, or a number: then vectors
    stay in registers, and `size` is a multiple of `rows`. `slots` are places on the stack, by
    number and bytes, which all tiles of a function share. `lines` is how many lanes have elements
    under `partial`, a mask that does not say it. Under any other mask that does not, such as those
    of pads, steps may lie outside of an array: what they select is not to be loaded by tiles.
    `is_aligned` says that `start` is a multiple of what is loaded at once.
    """

    row: Variable
    rows: int
    start: Affine
    size: int
    slots: dict[tuple[int, int], str]
    lines: Integer = 0
    partial: Mask | None = None
    is_aligned: bool = True
    _used: int = field(default=0)

    def read(
        self, elements: Elements, array: Array, place: Affine, mask: Mask | None
    ) -> Value | None:
        """Return a vector of an array, None where it is not to be loaded by tiles."""
        if dict(place.terms).get(self.row) != 1 or place.lane_step in (None, 0, 1):
            return None
        type_ = array.shape.element_type
        side = side_of(type_, elements.lanes, self.size)
        count = self._count(elements, mask)
        if side < 2 or not count:
            return None
        base = place - Affine(((self.row, 1),), 0, 0, self.rows - 1)
        if self.row.name.isdecimal():
            return self._from_registers(elements, array, base, count)
        key = ("tile", array, base, count)
        stack: str | None = elements.scopes.once(
            key, base.level, lambda: self._on_stack(elements, array, base, count)
        )
        if stack is None:
            return None
        fn, lanes = elements.function, elements.lanes
        place_in = fn.mul(fn.add(self.row.name, side), lanes * type_.nbytes)
        return memory.load(fn, elements.target, type_, fn.gep(stack, place_in), lanes)

    def _count(self, elements: Elements, mask: Mask | None) -> Integer:
        """How many lanes a mask holds for, from the first one on; 0 where that is not known."""
        if mask is None:
            return elements.lanes
        return self.lines if mask is self.partial else mask.count

    def _from_registers(
        self, elements: Elements, array: Array, base: Affine, count: Integer
    ) -> Value | None:
        type_ = array.shape.element_type
        lanes, side = elements.lanes, side_of(type_, elements.lanes, self.size)
        row = int(self.row.name)
        if self.size % side or self.rows % side:
            return None
        first = base + row // side * side

        def write() -> list[str]:
            lines = _Lines(elements, array, first, side, count)
            return lines.columns(elements, lines.first)

        columns: list[str] = elements.scopes.once(
            ("columns", array, first, count), first.level, write
        )
        name = columns[row % side]
        return memory.loaded(elements.function, elements.target, type_, name, lanes)

    def _slot(self, elements: Elements, nbytes: int) -> str | None:
        self._used += 1
        if self._used > MOST:
            return None
        key = self._used, nbytes
        if key not in self.slots:
            self.slots[key] = elements.function.stack("i8", nbytes)
        return self.slots[key]

    def _on_stack(
        self, elements: Elements, array: Array, base: Affine, count: Integer
    ) -> str | None:
        """Load and transpose a tile. The last piece of a row may begin before the tile does."""
        fn, lanes = elements.function, elements.lanes
        side = side_of(array.shape.element_type, lanes, self.size)
        lines = _Lines(elements, array, base, side, count)
        raw = lines.raw
        stack = self._slot(elements, (side + self.rows) * lanes * lines.nbytes)
        if stack is None:
            return None
        start = elements.indices.scalar(self.start)
        with fn.loop(0, fn.min(self.rows, fn.sub(self.size, start)), side) as loop:
            column = loop.index
            if self.size % side or not self.is_aligned:
                column = fn.min(column, fn.sub(self.size - side, start))
            columns = lines.columns(elements, fn.gep(lines.first, column, raw))
            into = fn.gep(stack, fn.mul(fn.add(column, side), lanes), raw)
            for number, vector in enumerate(columns):
                place = fn.gep(into, number * lanes, raw)
                fn.store(f"<{lanes} x {raw}>", vector, place, lines.nbytes)
        return stack


class _Lines:
    """Where the elements of each lane lie; those after `count` lanes are those of the last one.

    `first` is the address of that of lane 0 at the first step.
    """

    def __init__(
        self, elements: Elements, array: Array, base: Affine, side: int, count: Integer
    ) -> None:
        type_ = array.shape.element_type
        self.nbytes = type_.nbytes
        self.align = memory.element_bytes(type_)
        self.raw = f"i{8 * self.nbytes}"
        self.side = side
        self.step = base.lane_step or 0
        self.count = count
        self.first = elements.function.gep(array.pointer, elements.indices.scalar(base), self.raw)

    def columns(self, elements: Elements, corner: str) -> list[str]:
        """Load `side` steps from an address on, and return a vector of lanes for each."""
        fn = elements.function
        last = fn.sub(self.count, 1)
        rows = []
        for lane in range(elements.lanes):
            line = fn.gep(corner, fn.mul(fn.min(lane, last), self.step), self.raw)
            rows.append(fn.load(f"<{self.side} x {self.raw}>", line, self.align))
        return transposed(fn, self.raw, self.side, rows)
