"""Which tile of the result to hold in registers, and how rows and columns are cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lowtide.llvm.function import Function, Integer

LATENCY: Final = 4
"""Cycles from one multiplication and addition to the next that needs its sum."""

PORTS: Final = 2
"""Multiplications, and loads, that begin in a cycle."""

_PER_TILE: Final = 24
"""Cycles around a tile: the call, and filling and emptying the pipeline."""


@dataclass(frozen=True, slots=True)
class Cut:
    """`size` cut into `parts` whose lengths differ by at most one; the first ones are longer."""

    size: int
    parts: int

    @property
    def short(self) -> int:
        """The length of the shorter parts."""
        return self.size // self.parts

    @property
    def longer(self) -> int:
        """How many parts have one more."""
        return self.size % self.parts

    @property
    def longest(self) -> int:
        """The length of the first part."""
        return self.short + bool(self.longer)

    def start(self, fn: Function, part: Integer) -> Integer:
        """Write where a part begins."""
        longer = fn.min(part, self.longer) if self.longer else 0
        return fn.add(fn.mul(part, self.short), longer)

    def starts(self, fn: Function, part: Integer) -> tuple[Integer, Integer]:
        """Write where a part begins and ends."""
        if self.parts == 1:
            return 0, self.size
        if not self.longer and self.short == 1:
            return part, fn.add(part, 1)
        return self.start(fn, part), self.start(fn, fn.add(part, 1))


def cut(size: int, longest: int) -> Cut:
    """Return the fewest parts of at most `longest`; one for a size of 0."""
    return Cut(size, max(1, -(-size // max(1, longest))))


@dataclass(frozen=True, slots=True)
class Tile:
    """At most `rows` rows by `vectors` vectors of `lanes` columns, all sums in registers."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """The columns of a full tile."""
        return self.vectors * self.lanes


def best_tile(m: int, n: int, lanes: int, registers: int, planes: int, most_rows: int) -> Tile:
    """Return the tile for which m x n results take the fewest cycles for each step along k."""
    rows_at_most = min(m, most_rows)
    vectors_at_most = -(-n // lanes)
    best: tuple[float, int, Tile] | None = None
    for rows in range(1, max(1, rows_at_most) + 1):
        for vectors in range(1, max(1, vectors_at_most) + 1):
            if planes * (rows * vectors + vectors + 1) + planes - 1 > registers:
                break
            tile = Tile(rows, vectors, lanes)
            found = (_cycles(m, n, tile, planes), rows, tile)
            if best is None or found[:2] < best[:2]:
                best = found
    assert best is not None
    return best[2]


_PER_KERNEL: Final = 0.01
"""By how much a tile of another size may be slower than to be worth its code."""

_STEPS: Final = 64
"""Steps along k over which the cost around a tile is spread in the estimate."""


def _cycles(m: int, n: int, tile: Tile, planes: int) -> float:
    """Cycles of one step along k over all tiles."""
    rows, columns = cut(m, tile.rows), cut(n, tile.columns)
    heights = [(rows.longest, rows.longer or rows.parts)]
    if rows.longer:
        heights.append((rows.short, rows.parts - rows.longer))
    last = -(-(n - (columns.parts - 1) * tile.columns) // tile.lanes)
    widths = [(tile.vectors, columns.parts - 1), (max(1, last), 1)]
    kinds = (1 + bool(rows.longer)) * (1 + (last != tile.vectors))
    return (1 + _PER_KERNEL * kinds) * sum(
        [
            count * times * (_step(height, width, planes) + _PER_TILE / _STEPS)
            for height, count in heights
            for width, times in widths
        ]
    )


def _step(rows: int, vectors: int, planes: int) -> float:
    multiplications = rows * vectors * planes * planes / PORTS
    loads = (rows + vectors) * planes / PORTS
    return max(multiplications, loads, LATENCY * planes)
