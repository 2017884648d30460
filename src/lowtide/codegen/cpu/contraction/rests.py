"""Rests of packed columns of bytes: what is left of vectors with pairs too large for 16 bits.

An instruction multiplies bytes without a sign with bytes that have one, and adds up two products
in 16 bits, where larger sums saturate. None does that where the two bytes with a sign sum up to
128 at most, by magnitude: 128 * 255 < 2^15. A vector of units with another pair is cut in two: a
half stays in the panel, and the rest of it stands in a list behind the panel. Tiles multiply the
rests as well, so that no sum differs. Each vector of columns of a panel has a list: how many rests
there are, where the units of rows lie that they are multiplied with, and their own units.

A panel of which many vectors would be cut stays whole: tiles widen bytes to 16 bits in registers,
whose products are added up in 32 bits. Which it is says the first list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, TypeAlias

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod, sums_of_pairs
from lowtide.codegen.kernel import rounded
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass
from lowtide.records.changed import changed

MOST_PAIR: Final = 128
"""The magnitude of the sum of a pair up to which no sum of two products saturates."""

_MANY: Final = (3, 8)
"""The part of all vectors above which none is cut: so many parts of how many."""

_WHOLE: Final = -1
"""The count of rests that says that the panel is whole."""

_Visit: TypeAlias = Callable[[Integer, Sequence[Integer]], None]
"""Writes what is done with a row of a panel, whose units are multiplied with those at places."""

_Rows: TypeAlias = Callable[[_Visit], None]

_Sums: TypeAlias = "list[list[tuple[str, ...]]]"
"""Sums of a tile by row and vector."""

_COUNT_BYTES: Final = 8
_PLACE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Rests:
    """The lists of a panel of at most `steps` rows of `vectors` vectors, `behind` bytes from it.

    With each rest are `places`: where units of rows lie that it is multiplied with, in units from
    those of the first step, one for each way in which rows lie.
    """

    how: Arithmetic
    lanes: int
    steps: int
    vectors: int
    behind: int
    places: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of all lists."""
        return self.vectors * self._list_bytes

    @property
    def _vector_bytes(self) -> int:
        return self.lanes * self.how.unit_bytes

    @property
    def _head_bytes(self) -> int:
        return rounded(_COUNT_BYTES + self.steps * self.places * _PLACE_BYTES)

    @property
    def _list_bytes(self) -> int:
        return rounded(self._head_bytes + self.steps * self._vector_bytes)

    def _list(self, fn: Function, panel: str, vector: int) -> str:
        return fn.gep(panel, self.behind + vector * self._list_bytes)

    def _place(self, fn: Function, list_: str, number: Integer, way: int) -> str:
        first = fn.gep(list_, _COUNT_BYTES + way * _PLACE_BYTES)
        return fn.gep(first, fn.mul(number, self.places * _PLACE_BYTES))

    def _units(self, fn: Function, list_: str, number: Integer) -> str:
        return fn.gep(fn.gep(list_, self._head_bytes), fn.mul(number, self._vector_bytes))

    # -- packing ---------------------------------------------------------------------------------

    def sift(self, fn: Function, panel: str, vectors: int, rows: _Rows) -> None:
        """Write the halving of all vectors with too large a pair, unless there are too many.

        `rows` writes what is done with each row of the panel.
        """
        first = self._list(fn, panel, 0)
        fn.store("i64", 0, first, _COUNT_BYTES)
        rows(lambda row, places: self._weigh(fn, panel, row, vectors))
        weight = fn.load("i64", first, _COUNT_BYTES)
        is_whole = fn.compare("sgt", weight, 0)
        with fn.when(is_whole):
            fn.store("i64", _WHOLE, first, _COUNT_BYTES)
        with fn.when(fn.op(f"xor i1 {is_whole}, true")):
            for vector in range(vectors):
                fn.store("i64", 0, self._list(fn, panel, vector), _COUNT_BYTES)
            rows(lambda row, places: self._halve(fn, panel, row, vectors, places))

    def _weigh(self, fn: Function, panel: str, row: Integer, vectors: int) -> None:
        """Write the counting of vectors of a row: the sum is positive where many are too large."""
        many, all_ = _MANY
        first = self._list(fn, panel, 0)
        start = fn.gep(panel, fn.mul(row, self.vectors * self._vector_bytes))
        weight: Integer = 0
        for vector in range(vectors):
            there = fn.gep(start, vector * self._vector_bytes)
            units = fn.load(f"<{self._vector_bytes} x i8>", there, self.how.unit_bytes)
            is_large = self._is_large(fn, units)
            weight = fn.add(weight, fn.select(is_large, "i64", all_ - many, -many))
        before = fn.load("i64", first, _COUNT_BYTES)
        fn.store("i64", fn.add(before, weight), first, _COUNT_BYTES)

    def _halve(
        self, fn: Function, panel: str, row: Integer, vectors: int, places: Sequence[Integer]
    ) -> None:
        """Write the halving of those vectors of a row of a panel that have too large a pair.

        `places` are those of the units that the row is multiplied with.
        """
        start = fn.gep(panel, fn.mul(row, self.vectors * self._vector_bytes))
        short = [x if isinstance(x, int) else fn.op(f"trunc i64 {x} to i32") for x in places]
        type_, align = f"<{self._vector_bytes} x i8>", self.how.unit_bytes
        for vector in range(vectors):
            there, list_ = fn.gep(start, vector * self._vector_bytes), self._list(fn, panel, vector)
            units = fn.load(type_, there, align)
            with fn.when(self._is_large(fn, units)):
                half = fn.op(f"ashr {type_} {units}, splat (i8 1)")
                rest = fn.op(f"sub {type_} {units}, {half}")
                count = fn.load("i64", list_, _COUNT_BYTES)
                fn.store(type_, half, there, align)
                fn.store(type_, rest, self._units(fn, list_, count), align)
                for way, place in enumerate(short):
                    fn.store("i32", place, self._place(fn, list_, count, way), _PLACE_BYTES)
                fn.store("i64", fn.add(count, 1), list_, _COUNT_BYTES)

    def _is_large(self, fn: Function, units: str) -> str:
        """Whether a vector has a pair that is too large, an i1."""
        count = self._vector_bytes // 2
        pairs = f"<{count} x i16>"
        sums = sums_of_pairs(fn, self.lanes, "splat (i8 1)", units)
        low = fn.op(f"icmp slt {pairs} {sums}, splat (i16 {-MOST_PAIR})")
        high = fn.op(f"icmp sgt {pairs} {sums}, splat (i16 {MOST_PAIR})")
        large = fn.op(f"or <{count} x i1> {low}, {high}")
        bits = fn.op(f"bitcast <{count} x i1> {large} to i{count}")
        return fn.op(f"icmp ne i{count} {bits}, 0")

    # -- tiles -----------------------------------------------------------------------------------

    @property
    def widening(self) -> Arithmetic:
        """How the units of a whole panel are multiplied."""
        return changed(self.how, method=MultiplyMethod.BYTE_WORDS)

    def either(
        self,
        fn: Function,
        panel: str,
        rows: int,
        vectors: int,
        whole: Callable[[], _Sums],
        cut: Callable[[], _Sums],
    ) -> _Sums:
        """Write the sums of a whole panel, and those of another one; return those that it has.

        A tile has `rows` and `vectors`.
        """
        count = fn.load("i64", self._list(fn, panel, 0), _COUNT_BYTES)

        def flat(sums: _Sums) -> list[str]:
            return [x for row in sums for (x,) in row]

        types = repeat(f"<{self.lanes} x {self.how.sum_type}>", rows * vectors)
        is_whole = fn.compare("slt", count, 0)
        names = iter(fn.choose(is_whole, list(types), lambda: flat(whole()), lambda: flat(cut())))
        return [[(next(names),) for _ in range(vectors)] for _ in range(rows)]

    def added(
        self,
        fn: Function,
        target: Target,
        panel: str,
        sums: _Sums,
        row_at: Callable[[str, int], tuple[str, ...]],
        way: int = 0,
    ) -> _Sums:
        """Write the additions of what rests add to the sums of a tile, by row and vector.

        `row_at` writes the units of a row at a place, one of those of a `way` in which rows lie.
        """
        how, lanes = self.how, self.lanes
        type_ = f"<{lanes} x {how.sum_type}>"
        columns = []
        for vector in range(len(sums[0])):
            list_ = self._list(fn, panel, vector)
            count = fn.load("i64", list_, _COUNT_BYTES)
            carry = [(type_, row[vector][0]) for row in sums]
            with fn.loop(0, count, 1, carry) as loop:
                short = fn.load("i32", self._place(fn, list_, loop.index, way), _PLACE_BYTES)
                place = fn.op(f"sext i32 {short} to i64")
                there = self._units(fn, list_, loop.index)
                units = (fn.load(f"<{lanes} x i32>", there, how.unit_bytes),)
                loop.next = [
                    how.multiply_add(fn, target, lanes, (x,), row_at(place, i), units)[0]
                    for i, x in enumerate(loop.values)
                ]
            columns.append(loop.results)
        return [[(x,) for x in row] for row in zip(*columns, strict=True)]


LISTS: Final = {MultiplyMethod.BYTE_PAIRS: Rests}
"""The lists of panels, by the method whose sums may saturate."""
