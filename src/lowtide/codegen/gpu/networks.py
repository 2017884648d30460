"""Sorting networks in shared memory: a block of threads sorts some rows of records at once.

Each comparison puts the lesser record in front, whatever the data, so a comparator that orders
nothing still moves no record away. Source: K. E. Batcher (1968), "Sorting networks and their
applications"; the first comparisons of a stage are those of its mirrored form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from lowtide.codegen.elements.scopes import Scopes
from lowtide.codegen.gpu.threads import SharedArray, barrier, block_number, thread_in_block
from lowtide.codegen.library.records import Fields, Records
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass

LONGEST: Final = 2048
"""Records of a row that a block sorts, at most."""

_SHORTEST: Final = 512
"""Records of a block, at least: rows that are shorter share one."""

EACH: Final = 4
"""Records of a thread."""

Before = Callable[[Integer, Fields, Fields], str]
"""Writes whether a record comes before another one of its row, given the number of either."""


@dataclass(frozen=True)
class SortTiling:
    """Rows of `size` records, cut into tiles that a block sorts each.

    Of a row that is longer than a tile each tile is sorted by itself; of shorter ones a tile has
    several. Records behind the end of a row, or of rows that are none, come last.
    """

    rows: int
    size: int

    @cached_property
    def length(self) -> int:
        """The records of a row within a tile, a power of 2."""
        return min(1 << max(self.size - 1, 0).bit_length(), LONGEST)

    @property
    def tile(self) -> int:
        """The records of a block."""
        return max(self.length, _SHORTEST)

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.tile // EACH

    @property
    def together(self) -> int:
        """The rows of a block."""
        return self.tile // self.length

    @property
    def pieces(self) -> int:
        """The tiles of a row."""
        return -(-self.size // self.length)

    @property
    def padded(self) -> int:
        """The records of a row, with those behind its end."""
        return self.pieces * self.length

    @property
    def blocks(self) -> int:
        """The number of tiles."""
        return -(-self.rows // self.together) * self.pieces


@dataclass(frozen=True, slots=True)
class TilePlace:
    """A record of a tile: its number there, its row, its place in the row, and `is_there`.

    Row and place are within bounds even where there is no such record.
    """

    number: Integer
    row: Integer
    place: Integer
    is_there: str


def tile_place(fn: Function, tiling: SortTiling, number: Integer) -> TilePlace:
    """Return the record of the block's tile that has a number."""
    block = block_number(fn)
    first = fn.mul(fn.div(block, tiling.pieces), tiling.together)
    row = fn.add(first, fn.div(number, tiling.length))
    start = fn.mul(fn.rem(block, tiling.pieces), tiling.length)
    place = fn.add(start, fn.rem(number, tiling.length))
    is_row, is_place = fn.compare("slt", row, tiling.rows), fn.compare("slt", place, tiling.size)
    is_there = fn.op(f"and i1 {is_row}, {is_place}")
    row, place = fn.min(row, tiling.rows - 1), fn.min(place, tiling.size - 1)
    return TilePlace(number, row, place, is_there)


@contextmanager
def tile_places(
    fn: Function, scopes: Scopes, tiling: SortTiling, *, rows_first: bool = False
) -> Iterator[TilePlace]:
    """Write a loop over the records of a thread; neighbours are in one row, or in `rows_first`."""
    with scopes.loop(thread_in_block(fn), tiling.tile, tiling.threads) as loop:
        number = loop.index
        if rows_first:
            along = fn.mul(fn.rem(number, tiling.together), tiling.length)
            number = fn.add(along, fn.div(number, tiling.together))
        yield tile_place(fn, tiling, number)


class SharedRecords:
    """Records in shared memory, one array for each of their fields."""

    def __init__(self, records: Records, count: int, name: str = "sorted") -> None:
        self.records = records
        self.count = count
        self.arrays = [
            SharedArray(f"{name}{i}_{count}_{type_}", type_, count)
            for i, type_ in enumerate(records.types)
        ]

    @property
    def definitions(self) -> list[str]:
        """The lines that the module needs."""
        return [x.definition for x in self.arrays]

    def load(self, fn: Function, place: Integer) -> Fields:
        """Load a record."""
        return tuple([x.load(fn, place) for x in self.arrays])

    def store(self, fn: Function, place: Integer, fields: Fields) -> None:
        """Store a record."""
        for array, value in zip(self.arrays, fields, strict=True):
            array.store(fn, place, value)


def last_record(records: Records) -> Fields:
    """Return a record that no other one comes behind."""
    return tuple(["-1" for _ in records.types])


def selected(
    fn: Function, records: Records, condition: str, a: Sequence[str], b: Sequence[str]
) -> Fields:
    """Return one record where a condition holds, else the other."""
    found = zip(records.types, a, b, strict=True)
    return tuple([fn.select(condition, type_, x, y) for type_, x, y in found])


def key_before(fn: Function, records: Records, a: Fields, b: Fields) -> str:
    """Return whether a record with a key comes before another one; of equal keys, by places."""
    less = records.key_less(fn, a, b)
    if len(records.types) == 1:
        return less
    is_same = fn.op(f"icmp eq {records.types[0]} {a[0]}, {b[0]}")
    is_first = fn.op(f"icmp ult {records.types[1]} {a[1]}, {b[1]}")
    return fn.op(f"or i1 {less}, {fn.op(f'and i1 {is_same}, {is_first}')}")


def write_network(
    fn: Function, scopes: Scopes, shared: SharedRecords, tiling: SortTiling, before: Before
) -> None:
    """Write the sort of each row of a tile in shared memory; all threads see it when it is done."""
    stages = tiling.length.bit_length()
    thread = thread_in_block(fn)
    barrier(fn)
    with scopes.loop(1, stages) as stage, scopes.loop(0, stage.index) as step:
        level = fn.sub(fn.sub(stage.index, 1), step.index)
        half = fn.op(f"shl i64 1, {level}")
        is_first = fn.compare("eq", step.index, 0)
        with scopes.loop(thread, tiling.tile // 2, tiling.threads) as pair:
            low, high = _pair(fn, pair.index, level, half, is_first)
            _exchange(fn, scopes, shared, before, low, high)
        barrier(fn)


def _pair(
    fn: Function, number: Integer, level: Integer, half: str, is_first: str
) -> tuple[Integer, Integer]:
    """The places that are compared: of groups of 2 * half, mirrored in the first step."""
    along = fn.op(f"and i64 {number}, {fn.sub(half, 1)}")
    group = fn.op(f"shl i64 {fn.op(f'lshr i64 {number}, {level}')}, {fn.add(level, 1)}")
    low = fn.add(group, along)
    mirrored = fn.sub(fn.sub(fn.add(group, fn.mul(half, 2)), 1), along)
    return low, fn.select(is_first, "i64", mirrored, fn.add(low, half))


def _exchange(
    fn: Function, scopes: Scopes, shared: SharedRecords, before: Before, low: Integer, high: Integer
) -> None:
    a, b = shared.load(fn, low), shared.load(fn, high)
    with scopes.when(before(low, b, a)):
        shared.store(fn, low, b)
        shared.store(fn, high, a)
