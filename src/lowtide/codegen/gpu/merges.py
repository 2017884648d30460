"""Merges of sorted runs of records: each block makes a part of the result by itself.

A merge reads runs from one array and writes to another. Source of the cut that tells where a part
begins: S. Odeh, O. Green, Z. Mwassi, O. Shmueli and Y. Birk (2012), "Merge path - parallel merging
made simple".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.gpu.networks import SharedRecords, SortTiling, selected
from lowtide.codegen.gpu.threads import WARP, barrier, block_number, exchanged, thread_in_block
from lowtide.codegen.library.records import Fields, Records
from lowtide.llvm.function import Function, Integer

MERGED: Final = 8
"""Records that a thread merges one after the other."""

_Load = Callable[[Integer, Integer], tuple[Fields, Fields]]
"""Loads a record of the left run and one of the right one."""


class StoredRecords(Protocol):
    """How records lie in memory."""

    def load(self, fn: Function, base: str, at: Integer) -> Fields:
        """Load a record."""

    def store(self, fn: Function, base: str, at: Integer, fields: Fields) -> None:
        """Store a record."""


class Merge:
    """Writes the merge of a part of a result, of as many records as a tile has."""

    def __init__(
        self,
        elements: Elements,
        records: Records,
        tiling: SortTiling,
        width: int,
        stored: StoredRecords,
    ) -> None:
        self.records = records
        self.stored = stored
        self.elements = elements
        self.fn = elements.function
        self.width = width
        self.size = tiling.length
        self.shared = SharedRecords(records, self.size, "merged")
        self.padded = tiling.padded
        self.pieces = tiling.pieces

    def write(self, source: str, result: str) -> None:
        """Write the body: runs to shared memory, merged there, then to the result."""
        fn, scopes, shared = self.fn, self.elements.scopes, self.shared
        thread = thread_in_block(fn)
        start, left, right, count = self._part(source)
        with scopes.loop(thread, self.size, self.size // MERGED) as loop:
            is_left = fn.compare("slt", loop.index, count)
            behind = fn.add(fn.sub(loop.index, count), right)
            place = fn.select(is_left, "i64", fn.add(left, loop.index), behind)
            shared.store(fn, loop.index, self.stored.load(fn, source, place))
        barrier(fn)
        found = self._merged(thread, count)
        barrier(fn)
        for number, fields in enumerate(found):
            shared.store(fn, fn.add(fn.mul(thread, MERGED), number), fields)
        barrier(fn)
        with scopes.loop(thread, self.size, self.size // MERGED) as loop:
            fields = shared.load(fn, loop.index)
            self.stored.store(fn, result, fn.add(start, loop.index), fields)

    def _part(self, source: str) -> tuple[Integer, Integer, Integer, Integer]:
        """Where the part starts, and its runs: their starts, and the records of the left one."""
        fn, width = self.fn, self.width
        block = block_number(fn)
        row = fn.mul(fn.div(block, self.pieces), self.padded)
        first = fn.mul(fn.rem(block, self.pieces), self.size)
        low = fn.mul(fn.div(first, 2 * width), 2 * width)
        middle = fn.min(fn.add(low, width), self.padded)
        high = fn.min(fn.add(low, 2 * width), self.padded)
        done = fn.sub(first, low)
        ends = [done, fn.add(done, self.size)]
        sizes = fn.sub(middle, low), fn.sub(high, middle)
        low, middle = fn.add(row, low), fn.add(row, middle)
        load = self._in_scratch(source, low, middle)
        begin, end = (self._warp_cut(x, sizes, load) for x in ends)
        right = fn.add(middle, fn.sub(done, begin))
        return fn.add(row, first), fn.add(low, begin), right, fn.sub(end, begin)

    def _in_scratch(self, source: str, low: Integer, middle: Integer) -> _Load:
        def load(i: Integer, j: Integer) -> tuple[Fields, Fields]:
            fn = self.fn
            a = self.stored.load(fn, source, fn.add(low, i))
            return a, self.stored.load(fn, source, fn.add(middle, j))

        return load

    def _range(self, done: Integer, sizes: tuple[Integer, Integer]) -> list[Integer]:
        """The least and the most records of the left run among the first of the result."""
        fn, (left, right) = self.fn, sizes
        return [fn.max(fn.sub(done, right), 0), fn.min(done, left)]

    def _warp_cut(self, done: Integer, sizes: tuple[Integer, Integer], load: _Load) -> Integer:
        """How many records of the left run are among the first `done`, found by a warp.

        Each of its threads looks at one place of what is left, so that few loads wait in turn.
        """
        fn = self.fn
        low, high = self._range(done, sizes)
        lane = fn.op(f"and i64 {thread_in_block(fn)}, {WARP - 1}")
        most = self.width
        while most:
            step = most // (WARP + 1) + 1
            place = fn.add(low, fn.sub(fn.mul(fn.add(lane, 1), step), 1))
            is_open = fn.compare("slt", place, high)
            i = fn.select(is_open, "i64", place, 0)
            j = fn.select(is_open, "i64", fn.sub(fn.sub(done, place), 1), 0)
            a, b = load(i, j)
            after = fn.op(f"xor i1 {self.records.key_less(fn, b, a)}, true")
            count = self._counted(fn.op(f"and i1 {after}, {is_open}"))
            low = fn.add(low, fn.mul(count, step))
            high = fn.min(high, fn.add(low, step - 1))
            most = step - 1
        return low

    def _counted(self, condition: str) -> Integer:
        """In how many threads of the warp a condition holds."""
        fn = self.fn
        total = fn.op(f"zext i1 {condition} to i32")
        distance = WARP // 2
        while distance:
            total = fn.op(f"add i32 {total}, {exchanged(fn, 'i32', total, distance)}")
            distance //= 2
        return fn.op(f"zext i32 {total} to i64")

    def _cut(self, done: Integer, sizes: tuple[Integer, Integer], load: _Load) -> str:
        """How many records of the left run are among the first `done`, found by a thread."""
        carry = [("i64", str(x)) for x in self._range(done, sizes)]
        with self.elements.scopes.loop(0, self.size.bit_length() + 1, 1, carry) as loop:
            loop.next = self._halved(loop.values, done, load)
        return loop.results[0]

    def _halved(self, range_: list[str], done: Integer, load: _Load) -> list[str]:
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
        return [fn.select(before, "i64", low, raised), fn.select(before, "i64", half, high)]

    def _merged(self, thread: str, count: Integer) -> list[Fields]:
        """The records of a thread."""
        fn, shared = self.fn, self.shared
        done = fn.mul(thread, MERGED)
        other = fn.sub(self.size, count)

        def load(i: Integer, j: Integer) -> tuple[Fields, Fields]:
            here = fn.min(fn.add(count, j), self.size - 1)
            return shared.load(fn, fn.min(i, self.size - 1)), shared.load(fn, here)

        i = self._cut(done, (count, other), load)
        j: Integer = fn.sub(done, i)
        place: Integer = i
        found = []
        for _ in range(MERGED):
            a, b = load(place, j)
            is_left = fn.compare("slt", place, count)
            is_right = fn.compare("slt", j, other)
            before = fn.op(f"and i1 {self.records.key_less(fn, b, a)}, {is_right}")
            take = fn.op(f"or i1 {before}, {fn.op(f'xor i1 {is_left}, true')}")
            found.append(selected(fn, self.records, take, b, a))
            step = fn.op(f"zext i1 {take} to i64")
            place, j = fn.sub(fn.add(place, 1), step), fn.add(j, step)
        return found
