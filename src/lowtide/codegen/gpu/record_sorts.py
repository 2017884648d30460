"""Sorts of records with keys in scratch: blocks sort tiles, then merge runs of them.

A merge reads runs from one array and writes to another; each block makes a part of the result,
whose ends it finds by itself. Source of the cut: S. Odeh, O. Green, Z. Mwassi, O. Shmueli and
Y. Birk (2012), "Merge path - parallel merging made simple".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from lowtide.codegen.cpu.library.records import Fields, Records, records_of
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.gpu.kernel import buffer_names, kernel_function
from lowtide.codegen.gpu.networks import (
    LONGEST,
    SharedRecords,
    TilePlace,
    Tiling,
    last_record,
    selected,
    tile_places,
)
from lowtide.codegen.gpu.register_networks import write_key_network
from lowtide.codegen.gpu.threads import barrier, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.kernel import rounded
from lowtide.ir import Instruction
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_MERGED: Final = 8
"""Records that a thread merges one after the other."""

MakeRecord = Callable[[Elements, Bound, TilePlace], Fields]
"""Writes the record of a place."""


@dataclass(frozen=True, eq=False)
class RecordSort:
    """A sort of rows of records with keys of `key_bits` bits, for an instruction's kernel.

    Scratch from `first` on has two arrays of records. `name` begins the names of its functions.
    """

    instruction: Instruction
    target: Target
    tiling: Tiling
    key_bits: int
    make: MakeRecord
    name: str
    first: int = 0
    rows_first: bool = False

    @cached_property
    def records(self) -> Records:
        """The layout of the records of all rows; row after row, each padded."""
        return records_of(self.key_bits, self.tiling.rows * self.tiling.padded)

    @property
    def array_bytes(self) -> int:
        """The bytes of one of the two arrays."""
        return rounded(self.records.nbytes * self.records.capacity)

    @property
    def widths(self) -> list[int]:
        """The lengths of the runs that are merged, in turn."""
        found, width = [], self.tiling.length
        while width < self.tiling.padded:
            found.append(width)
            width *= 2
        return found

    @property
    def sorted_at(self) -> int:
        """Where in scratch the sorted records lie."""
        return self.first + (self.array_bytes if len(self.widths) % 2 else 0)

    @property
    def scratch_bytes(self) -> int:
        """The scratch of both arrays."""
        return (2 if self.widths else 1) * self.array_bytes

    def write(self) -> tuple[list[Function], list[GridLaunch], list[str]]:
        """Return the functions, their launches, and what the module defines besides."""
        tiles, texts = self._tiles()
        functions, launches = [tiles], [self._launch(tiles)]
        source, result = self.first, self.first + self.array_bytes
        for width in self.widths:
            merge, more = self._merge(width, source, result)
            functions.append(merge)
            threads = LONGEST // _MERGED
            blocks = self.tiling.rows * self.tiling.pieces
            launches.append(GridLaunch(merge.name, blocks, threads))
            texts += more
            source, result = result, source
        return functions, launches, texts

    def _launch(self, function: Function) -> GridLaunch:
        return GridLaunch(function.name, self.tiling.blocks, self.tiling.threads)

    def _tiles(self) -> tuple[Function, list[str]]:
        """The kernel that makes the records, and sorts each tile."""
        tiling, records = self.tiling, self.records
        fn = kernel_function(f"{self.name}tiles", self.instruction, tiling.threads)
        elements = thread_elements(fn, self.target, 0)
        bound = bind(fn, self.instruction, buffer_names(self.instruction))
        shared = SharedRecords(records, tiling.tile)
        fill_tile(elements, bound, shared, tiling, self.make, rows_first=self.rows_first)
        write_key_network(fn, shared, tiling)
        base = fn.gep("%scratch", self.first)
        with tile_places(fn, elements.scopes, tiling) as at:
            row = fn.add(fn.mul(at.row, tiling.padded), at.place)
            if tiling.pieces == 1:
                with elements.scopes.when(at.is_there):
                    records.store(fn, base, row, shared.load(fn, at.number))
            else:
                place = fn.add(fn.mul(block_number(fn), tiling.length), at.number)
                records.store(fn, base, place, shared.load(fn, at.number))
        return fn, [*elements.globals.values(), *shared.definitions]

    def _merge(self, width: int, source: int, result: int) -> tuple[Function, list[str]]:
        """The kernel that merges runs of `width` records of each row."""
        fn = kernel_function(f"{self.name}merge{width}", self.instruction, LONGEST // _MERGED)
        elements = thread_elements(fn, self.target, 0)
        writer = _Merge(self, elements, width, fn.gep("%scratch", source))
        writer.write(fn.gep("%scratch", result))
        return fn, writer.shared.definitions


def fill_tile(
    elements: Elements,
    bound: Bound,
    shared: SharedRecords,
    tiling: Tiling,
    make: MakeRecord,
    *,
    rows_first: bool = False,
) -> None:
    """Write what makes the records of a tile."""
    fn = elements.function
    last = last_record(shared.records)
    with tile_places(fn, elements.scopes, tiling, rows_first=rows_first) as at:
        made = make(elements, bound, at)
        shared.store(fn, at.number, selected(fn, shared.records, at.is_there, made, last))


class _Merge:
    """Writes the merge of a part of a result, of as many records as a tile has."""

    def __init__(self, sort: RecordSort, elements: Elements, width: int, source: str) -> None:
        self.records = sort.records
        self.elements = elements
        self.fn = elements.function
        self.width = width
        self.source = source
        self.shared = SharedRecords(sort.records, LONGEST, "merged")
        self.padded = sort.tiling.padded
        self.pieces = sort.tiling.pieces

    def write(self, result: str) -> None:
        """Write the body: runs to shared memory, merged there, then to the result."""
        fn, scopes, shared = self.fn, self.elements.scopes, self.shared
        thread = thread_in_block(fn)
        start, left, right, count = self._part()
        with scopes.loop(thread, LONGEST, LONGEST // _MERGED) as loop:
            is_left = fn.compare("slt", loop.index, count)
            behind = fn.add(fn.sub(loop.index, count), right)
            place = fn.select(is_left, "i64", fn.add(left, loop.index), behind)
            shared.store(fn, loop.index, self.records.load(fn, self.source, place))
        barrier(fn)
        found = self._merged(thread, count)
        barrier(fn)
        for number, fields in enumerate(found):
            shared.store(fn, fn.add(fn.mul(thread, _MERGED), number), fields)
        barrier(fn)
        with scopes.loop(thread, LONGEST, LONGEST // _MERGED) as loop:
            fields = shared.load(fn, loop.index)
            self.records.store(fn, result, fn.add(start, loop.index), fields)

    def _part(self) -> tuple[Integer, Integer, Integer, Integer]:
        """Where the part starts, and its runs: their starts, and the records of the left one."""
        fn, width = self.fn, self.width
        block = block_number(fn)
        row = fn.mul(fn.div(block, self.pieces), self.padded)
        first = fn.mul(fn.rem(block, self.pieces), LONGEST)
        low = fn.mul(fn.div(first, 2 * width), 2 * width)
        middle = fn.min(fn.add(low, width), self.padded)
        high = fn.min(fn.add(low, 2 * width), self.padded)
        done = fn.sub(first, low)
        ends = [done, fn.add(done, LONGEST)]
        sizes = fn.sub(middle, low), fn.sub(high, middle)
        low, middle = fn.add(row, low), fn.add(row, middle)
        begin, end = self._cuts(ends, sizes, width, self._in_scratch(low, middle))
        right = fn.add(middle, fn.sub(done, begin))
        return fn.add(row, first), fn.add(low, begin), right, fn.sub(end, begin)

    def _in_scratch(
        self, low: Integer, middle: Integer
    ) -> Callable[[Integer, Integer], tuple[Fields, Fields]]:
        def load(i: Integer, j: Integer) -> tuple[Fields, Fields]:
            fn = self.fn
            a = self.records.load(fn, self.source, fn.add(low, i))
            return a, self.records.load(fn, self.source, fn.add(middle, j))

        return load

    def _cuts(
        self,
        ends: list[Integer],
        sizes: tuple[Integer, Integer],
        most: int,
        load: Callable[[Integer, Integer], tuple[Fields, Fields]],
    ) -> list[str]:
        """How many records of the left run are among the first so many of the result, for each."""
        fn, (left, right) = self.fn, sizes
        carry = []
        for done in ends:
            carry.append(("i64", str(fn.max(fn.sub(done, right), 0))))
            carry.append(("i64", str(fn.min(done, left))))
        with self.elements.scopes.loop(0, most.bit_length() + 1, 1, carry) as loop:
            after = []
            for number, done in enumerate(ends):
                after += self._halved(loop.values[2 * number : 2 * number + 2], done, load)
            loop.next = after
        return loop.results[::2]

    def _halved(
        self,
        range_: list[str],
        done: Integer,
        load: Callable[[Integer, Integer], tuple[Fields, Fields]],
    ) -> list[str]:
        """A step of the search; places that are not looked at are 0."""
        fn, (low, high) = self.fn, range_
        half = fn.op(f"lshr i64 {fn.add(low, high)}, 1")
        is_open = fn.compare("slt", low, high)
        i = fn.select(is_open, "i64", half, 0)
        j = fn.select(is_open, "i64", fn.sub(fn.sub(done, half), 1), 0)
        # Where the right run is empty its place 0 lies behind the row: the left one is read again.
        a, b = load(i, j)
        before = fn.op(f"and i1 {self.records.key_less(fn, b, a)}, {is_open}")
        raised = fn.select(is_open, "i64", fn.add(half, 1), low)
        return [
            fn.select(before, "i64", low, raised),
            fn.select(before, "i64", half, high),
        ]

    def _merged(self, thread: str, count: Integer) -> list[Fields]:
        """The records of a thread."""
        fn, shared = self.fn, self.shared
        done = fn.mul(thread, _MERGED)
        other = fn.sub(LONGEST, count)

        def load(i: Integer, j: Integer) -> tuple[Fields, Fields]:
            here = fn.min(fn.add(count, j), LONGEST - 1)
            return shared.load(fn, fn.min(i, LONGEST - 1)), shared.load(fn, here)

        (i,) = self._cuts([done], (count, other), LONGEST, load)
        j: Integer = fn.sub(done, i)
        place: Integer = i
        found = []
        for _ in range(_MERGED):
            a, b = load(place, j)
            is_left = fn.compare("slt", place, count)
            is_right = fn.compare("slt", j, other)
            before = fn.op(f"and i1 {self.records.key_less(fn, b, a)}, {is_right}")
            take = fn.op(f"or i1 {before}, {fn.op(f'xor i1 {is_left}, true')}")
            found.append(selected(fn, self.records, take, b, a))
            step = fn.op(f"zext i1 {take} to i64")
            place, j = fn.sub(fn.add(place, 1), step), fn.add(j, step)
        return found
