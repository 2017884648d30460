"""Tiles of the result to hold in registers, and the cut of rows and columns into tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

LATENCY: Final = 4
"""Cycles from one multiplication and addition to the next that needs its sum."""

PORTS: Final = 2
"""Multiplications, and loads, that begin in a cycle."""

FAR: Final = 1 / 24
"""Cycles in which a byte comes from a second cache while others are multiplied."""

_PER_LOADED_BYTE: Final = 0.1 / 64
"""Cycles by which a load holds up multiplications, for each of its bytes, while columns come from a
second cache."""

_PER_LINE: Final = 2.0
"""Cycles in which a line of 64 bytes is packed, of which a step of a panel touches one more than it
fills."""

_PER_TILE: Final = 24
"""Cycles around a tile: the call, and filling and emptying the pipeline."""


@dataclass(frozen=True, slots=True)
class EvenParts:
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


def cut(size: int, longest: int) -> EvenParts:
    """Return the fewest parts of at most `longest`; one for a size of 0."""
    return EvenParts(size, max(1, -(-size // max(1, longest))))


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """At most `rows` rows by `vectors` vectors of `lanes` columns, all sums in registers."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """The columns of a full tile."""
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True)
class PanelCost:
    """A panel that tiles read: `steps` vectors of `vector_bytes` for each vector of its columns.

    One of more than `near_bytes` comes from a second cache, for each tile again. It may have to be
    packed before.
    """

    steps: int
    vector_bytes: int
    near_bytes: int
    is_packed: bool

    def is_near(self, vectors: int) -> bool:
        """Whether a panel of some vectors stays in a first cache."""
        return vectors * self.vector_bytes * self.steps <= self.near_bytes

    def packing(self, vectors: int) -> float:
        """Cycles that it takes to pack a step of a panel of some vectors."""
        return _PER_LINE * (1 + vectors * self.vector_bytes / 64) if self.is_packed else 0.0


@dataclass(frozen=True, slots=True)
class ComputingCycles:
    """Cycles in which an element of a row and of a column is computed while it is packed."""

    row: float = 0.0
    column: float = 0.0


NO_COMPUTING: Final = ComputingCycles()
"""Of operands that lie in memory."""


def best_tiles(
    m: int,
    n: int,
    lanes: int,
    planes: int,
    most_rows: int,
    panel: PanelCost,
    fits: Callable[[int, int], bool],
) -> list[RegisterTile]:
    """Return the best tile of each number of vectors, those first that take fewer cycles.

    That is cycles for each step along k of m x n results. `fits` says whether registers hold a tile
    of some rows and vectors.
    """
    rows_at_most = min(m, most_rows)
    vectors_at_most = -(-n // lanes)
    best: dict[int, tuple[float, int, RegisterTile]] = {}
    for rows in range(1, max(1, rows_at_most) + 1):
        for vectors in range(1, max(1, vectors_at_most) + 1):
            if not fits(rows, vectors):
                break
            tile = RegisterTile(rows, vectors, lanes)
            found = (_cycles(m, n, tile, planes, panel), rows, tile)
            if vectors not in best or found[:2] < best[vectors][:2]:
                best[vectors] = found
    return [tile for *_, tile in sorted(best.values(), key=lambda x: x[:2])]


_PER_KERNEL: Final = 0.01
"""By how much a tile of another size may be slower than to be worth its code."""

_STEPS: Final = 64
"""Steps along k over which the cost around a tile is spread in the estimate."""


def _cycles(m: int, n: int, tile: RegisterTile, planes: int, panel: PanelCost) -> float:
    """Cycles of one step along k over all tiles."""
    rows, columns = cut(m, tile.rows), cut(n, tile.columns)
    heights = [(rows.longest, rows.longer or rows.parts)]
    if rows.longer:
        heights.append((rows.short, rows.parts - rows.longer))
    last = -(-(n - (columns.parts - 1) * tile.columns) // tile.lanes)
    widths = [(tile.vectors, columns.parts - 1), (max(1, last), 1)]
    kinds = (1 + bool(rows.longer)) * (1 + (last != tile.vectors))
    packing = columns.parts * panel.packing(tile.vectors)
    return packing + (1 + _PER_KERNEL * kinds) * sum(
        [
            count
            * times
            * (_step(height, width, planes, panel) + _around(height, width, panel.steps))
            for height, count in heights
            for width, times in widths
        ]
    )


def _around(rows: int, vectors: int, steps: int) -> float:
    """Cycles around a tile for each step: those of stores count, which cut lines in two."""
    return _PER_TILE / _STEPS + rows * (vectors + 1) / max(1, steps)


def _step(rows: int, vectors: int, planes: int, panel: PanelCost) -> float:
    multiplications = rows * vectors * planes * planes / PORTS
    loads = (rows + vectors) * planes
    least = max(loads / PORTS, LATENCY * planes)
    if panel.is_near(vectors * planes):
        return max(multiplications, least)
    coming = vectors * planes * panel.vector_bytes * FAR
    return max(multiplications, least, coming) + _PER_LOADED_BYTE * panel.vector_bytes * loads
