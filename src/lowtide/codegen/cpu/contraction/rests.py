"""Rests of packed columns of bytes: what is left of vectors with pairs too large for 16 bits.

An instruction multiplies bytes without a sign with bytes that have one, and adds up two products
in 16 bits, where larger sums saturate. None does that where the two bytes with a sign sum up to
128 at most, by magnitude: 128 * 255 < 2^15. A vector of units with another pair is cut in two: a
half stays in the panel, and the rest of it stands in a list behind the panel, with the number of
its step. Tiles multiply the rests as well, so that no sum differs. Each vector of columns has a
list: how many rests there are, their numbers, and their units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod, sums_of_pairs
from lowtide.codegen.kernel import rounded
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MOST_PAIR: Final = 128
"""The magnitude of the sum of a pair up to which no sum of two products saturates."""

_COUNT_BYTES: Final = 8
_NUMBER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Rests:
    """The lists of a panel of at most `steps` rows of `vectors` vectors, `behind` bytes from it."""

    how: Arithmetic
    lanes: int
    steps: int
    vectors: int
    behind: int

    @property
    def nbytes(self) -> int:
        """Bytes of all lists."""
        return self.vectors * self._list_bytes

    @property
    def _vector_bytes(self) -> int:
        return self.lanes * self.how.unit_bytes

    @property
    def _head_bytes(self) -> int:
        return rounded(_COUNT_BYTES + self.steps * _NUMBER_BYTES)

    @property
    def _list_bytes(self) -> int:
        return rounded(self._head_bytes + self.steps * self._vector_bytes)

    def _list(self, fn: Function, panel: str, vector: int) -> str:
        return fn.gep(panel, self.behind + vector * self._list_bytes)

    def _number(self, fn: Function, list_: str, place: Integer) -> str:
        return fn.gep(fn.gep(list_, _COUNT_BYTES), fn.mul(place, _NUMBER_BYTES))

    def _units(self, fn: Function, list_: str, place: Integer) -> str:
        return fn.gep(fn.gep(list_, self._head_bytes), fn.mul(place, self._vector_bytes))

    # -- packing ---------------------------------------------------------------------------------

    def begin(self, fn: Function, panel: str, vectors: int) -> None:
        """Write the counts of empty lists."""
        for vector in range(vectors):
            fn.store("i64", 0, self._list(fn, panel, vector), 8)

    def sift(self, fn: Function, panel: str, number: Integer, vectors: int) -> None:
        """Write the halving of those vectors of a row of a panel that have too large a pair."""
        row = fn.gep(panel, fn.mul(number, self.vectors * self._vector_bytes))
        for vector in range(vectors):
            there = fn.gep(row, vector * self._vector_bytes)
            units = fn.load(self._type, there, self.how.unit_bytes)
            with fn.when(self._is_large(fn, units)):
                self._halve(fn, self._list(fn, panel, vector), there, units, number)

    @property
    def _type(self) -> str:
        return f"<{self._vector_bytes} x i8>"

    def _is_large(self, fn: Function, units: str) -> str:
        """Whether a vector has a pair that is too large, an i1."""
        count = self._vector_bytes // 2
        pairs = sums_of_pairs(fn, self.lanes, "splat (i8 1)", units)
        size = fn.op(f"call <{count} x i16> @llvm.abs.v{count}i16(<{count} x i16> {pairs}, i1 true)")
        large = fn.op(f"icmp ugt <{count} x i16> {size}, splat (i16 {MOST_PAIR})")
        bits = fn.op(f"bitcast <{count} x i1> {large} to i{count}")
        return fn.op(f"icmp ne i{count} {bits}, 0")

    def _halve(self, fn: Function, list_: str, there: str, units: str, number: Integer) -> None:
        half = fn.op(f"ashr {self._type} {units}, splat (i8 1)")
        rest = fn.op(f"sub {self._type} {units}, {half}")
        place = fn.load("i64", list_, 8)
        short = number if isinstance(number, int) else fn.op(f"trunc i64 {number} to i32")
        fn.store(self._type, half, there, self.how.unit_bytes)
        fn.store("i32", short, self._number(fn, list_, place), _NUMBER_BYTES)
        fn.store(self._type, rest, self._units(fn, list_, place), self.how.unit_bytes)
        fn.store("i64", fn.add(place, 1), list_, 8)

    # -- tiles -----------------------------------------------------------------------------------

    def added(
        self,
        fn: Function,
        target: Target,
        panel: str,
        sums: list[list[tuple[str, ...]]],
        row_at: Callable[[str, int], tuple[str, ...]],
    ) -> list[list[tuple[str, ...]]]:
        """Write the additions of what rests add to the sums of a tile, by row and vector.

        `row_at` writes the units of a row at the step of a number.
        """
        how, lanes = self.how, self.lanes
        type_ = f"<{lanes} x {how.sum_type}>"
        columns = []
        for vector in range(len(sums[0])):
            list_ = self._list(fn, panel, vector)
            count = fn.load("i64", list_, 8)
            carry = [(type_, row[vector][0]) for row in sums]
            with fn.loop(0, count, 1, carry) as loop:
                short = fn.load("i32", self._number(fn, list_, loop.index), _NUMBER_BYTES)
                number = fn.op(f"zext i32 {short} to i64")
                place = self._units(fn, list_, loop.index)
                units = (fn.load(f"<{lanes} x i32>", place, how.unit_bytes),)
                loop.next = [
                    how.multiply_add(fn, target, lanes, (x,), row_at(number, i), units)[0]
                    for i, x in enumerate(loop.values)
                ]
            columns.append(loop.results)
        return [[(x,) for x in row] for row in zip(*columns, strict=True)]


def rests_of(how: Arithmetic, lanes: int, steps: int, vectors: int, behind: int) -> Rests | None:
    """Return the lists of a panel, None where no sum can saturate."""
    if how.method is not MultiplyMethod.BYTE_PAIRS:
        return None
    return Rests(how, lanes, steps, vectors, behind)
