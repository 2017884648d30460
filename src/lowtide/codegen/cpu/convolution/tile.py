"""The innermost loops: a tile of sums in registers, to which all products of a block are added."""

from __future__ import annotations

from dataclasses import field
from itertools import product
from typing import TYPE_CHECKING, Final, TypeAlias

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod
from lowtide.codegen.cpu.contraction.micro import Vectors, broadcast, zeros
from lowtide.codegen.cpu.contraction.transposing import totals
from lowtide.codegen.cpu.convolution.axes import FEATURE, Row, StepLoop
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.value import Value, vector_type
from lowtide.ir import ElementType
from lowtide.llvm.callee import FunctionParameter, parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.codegen.cpu.contraction.rests import Rests

Tile: TypeAlias = "list[list[Vectors]]"
"""Sums by row and vector of columns."""

UNROLLED: Final = 8
"""Steps that are written one by one where neighbouring rows share what they load."""


def parameters_of(scheme: ConvolutionScheme) -> tuple[FunctionParameter, ...]:
    """Return the parameters of a tile: input, panel, sums, and how many taps there are.

    With `%more` products are added to the sums that are there. `outer_steps` has the last ones.
    """
    taps = {f"taps{i}": "i64" for i in range(len(scheme.problem.spatial))}
    outer = {f"step{i}": "i64" for i in range(len(outer_steps(scheme)))}
    return parameters(a="ptr", b="ptr", sums="ptr", more="i1", features="i64", **taps, **outer)


def outer_steps(scheme: ConvolutionScheme) -> list[int]:
    """Return the bytes in the input between steps of the loops around the innermost one.

    They are arguments: convolutions of images that differ in size have a tile in common.
    """
    return [x.a_step * scheme.how.row_unit_bytes for x in scheme.steps()[:-1]]


def row_step(scheme: ConvolutionScheme, row: Row) -> int:
    """Return by how many units neighbours along a dimension of rows lie apart in the input."""
    at = {x.kind: x.step for x in scheme.axes()}
    return at[row.axis] * (scheme.problem.spatial[row.axis].stride if row.axis >= 0 else 1)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row of a tile has its units, and its sums, behind those of the first one."""

    units: int
    sums: int


def places(scheme: ConvolutionScheme, *, is_direct: bool) -> list[RowPlace]:
    """Return the rows of a tile; sums lie as in the result, or one row behind the other."""
    rows = scheme.rows[scheme.tile_dim :]
    sizes = [scheme.tile_rows, *[x.size for x in rows[1:]]]
    steps = [row_step(scheme, x) for x in rows]
    found = []
    for number, index in enumerate(product(*[range(x) for x in sizes])):
        units = sum([i * step for i, step in zip(index, steps, strict=True)])
        there = sum([i * x.out_step for i, x in zip(index, rows, strict=True)])
        found.append(RowPlace(units, there if is_direct else number * scheme.columns))
    return found


def tile_function(
    name: str,
    scheme: ConvolutionScheme,
    target: Target,
    columns: int,
    rests: Rests | None,
    way: int,
    *,
    is_direct: bool,
) -> Function:
    """Write a tile of `columns` columns, whose sums are those of the result if it `is_direct`.

    Panels may have `rests`, for which its rows lie in a `way`.
    """
    fn = Function(name, parameters_of(scheme), linkage="internal")
    rows = places(scheme, is_direct=is_direct)
    return _TileWriter(fn, scheme, target, columns, rows, rests, way).write()


@dataclass(eq=False, slots=True)
class _TileWriter:
    fn: Function
    scheme: ConvolutionScheme
    target: Target
    columns: int
    rows: list[RowPlace]
    rests: Rests | None
    way: int
    how: Arithmetic = field(init=False)
    """How products are formed: of panels with rests there are two ways."""
    known: dict[str, str] = field(default_factory=dict)
    """Addresses of the units of the first row, by their place."""

    @property
    def vectors(self) -> int:
        return self.columns if self.scheme.is_inward else -(-self.columns // self.scheme.lanes)

    def write(self) -> Function:
        scheme, how, lanes = self.scheme, self.scheme.how, self.scheme.lanes
        sums = self._looped(how) if self.rests is None else self._whole_or_cut(self.rests)
        sums = how.without_offset(self.fn, lanes, sums)
        if scheme.is_inward:
            self._add_lanes(sums)
            return self.fn
        if scheme.inner_blocks > 1:
            sums = self._with_those_before(sums)
        for i, j in product(range(len(self.rows)), range(self.vectors)):
            value = Value(sums[i][j], how.total, lanes)
            memory.store(self.fn, self.target, value, self._place(i, j), self._mask(j))
        return self.fn

    def _looped(self, how: Arithmetic) -> Tile:
        """The sums of all products, which are formed in a way."""
        start = zeros(how, len(self.rows) + how.more_rows, self.vectors, self.scheme.lanes)
        self.how = how
        return self._loops(self.scheme.steps(), "%a", "%b", start)

    def _whole_or_cut(self, rests: Rests) -> Tile:
        """The sums of a panel that may have rests."""

        def cut() -> Tile:
            sums = self._looped(self.scheme.how)
            return rests.added(self.fn, self.target, "%b", sums, self._row_at, self.way)

        rows = len(self.rows) + self.scheme.how.more_rows
        return rests.either(
            self.fn, "%b", rows, self.vectors, lambda: self._looped(rests.widening), cut
        )

    # -- sums ------------------------------------------------------------------------------------

    def _mask(self, vector: int) -> str | None:
        lanes = self.scheme.lanes
        mask = tail_mask(lanes, self.columns - vector * lanes)
        return None if mask is None else mask.name

    def _place(self, row: int, vector: int) -> str:
        at = self.rows[row].sums + vector * self.scheme.lanes
        return self.fn.gep("%sums", at * self.scheme.how.unit_bytes)

    def _add_lanes(self, sums: Tile) -> None:
        """Add up the lanes of each vector; store the sums by rows, with those that are there."""
        fn, how, lanes = self.fn, self.scheme.how, self.scheme.lanes
        type_ = vector_type(how.sum_type, lanes)
        flat = [x for row in sums for (x,) in row]
        flat += ["zeroinitializer"] * (-len(flat) % lanes)
        add = "add" if how.total.is_integer else "fadd"
        for first in range(0, len(flat), lanes):
            total = totals(fn, type_, how.unit_bytes, add, flat[first : first + lanes])
            there = fn.gep("%sums", first * how.unit_bytes)
            if self.scheme.inner_blocks > 1:
                before = memory.load(fn, self.target, how.total, there, lanes).name
                before = fn.select("%more", type_, before, "zeroinitializer")
                total = fn.op(f"{add} {type_} {total}, {before}")
            memory.store(fn, self.target, Value((total,), how.total, lanes), there)

    def _with_those_before(self, sums: Tile) -> Tile:
        """Add the sums that are there, if there are any.

        Adding up blocks apart from each other rounds less than one long sum does (Higham, "The
        accuracy of floating point summation", 1993).
        """
        fn, how, lanes = self.fn, self.scheme.how, self.scheme.lanes
        type_ = vector_type(how.sum_type, lanes)
        add = "add" if how.total.is_integer else "fadd"

        def added() -> list[str]:
            found: list[str] = []
            for i, j in product(range(len(self.rows)), range(self.vectors)):
                there, mask = self._place(i, j), self._mask(j)
                before = memory.load(fn, self.target, how.total, there, lanes, mask).names
                pairs = zip(before, sums[i][j], strict=True)
                found += [fn.op(f"{add} {type_} {x}, {y}") for x, y in pairs]
            return found

        alone = [x for row in sums for vector in row for x in vector]
        names = fn.choose("%more", [type_] * len(alone), added, lambda: alone)
        return self._shaped(names)

    def _shaped(self, names: list[str]) -> Tile:
        rest = iter(names)
        planes = range(self.scheme.how.planes)
        rows = len(names) // (self.vectors * len(planes))
        return [
            [tuple([next(rest) for _ in planes]) for _ in range(self.vectors)] for _ in range(rows)
        ]

    # -- products --------------------------------------------------------------------------------

    def _count(self, steps: StepLoop) -> Integer:
        if steps.size is not None:
            return steps.size
        total: Integer = 1
        for kind in steps.kinds:
            total = self.fn.mul(total, self._size(kind))
        return total

    def _size(self, kind: int) -> Integer:
        if kind != FEATURE:
            return f"%taps{kind}"
        scheme = self.scheme
        is_known = scheme.has_zeros or scheme.feature_blocks == 1
        features: Integer = scheme.feature_block if is_known else "%features"
        return self.fn.div(features, scheme.feature_step)

    def _loops(self, steps: tuple[StepLoop, ...], a: str, b: str, sums: Tile) -> Tile:
        """Write the loops, outermost first; return the sums behind them."""
        fn, scheme = self.fn, self.scheme
        if not steps:
            return self._step(a, b, sums)
        this, inner = steps[0], steps[1:]
        nbytes, row_bytes = scheme.column_unit_bytes, scheme.how.row_unit_bytes
        count = self._count(this)
        if scheme.is_lanewise and isinstance(count, int) and count <= UNROLLED and not inner:
            known: dict[int, Vectors] = {}
            for i in range(count):
                there = fn.gep(b, i * this.b_step * nbytes)
                sums = self._step(a, there, sums, i * this.a_step * row_bytes, known)
            return sums
        type_ = vector_type(scheme.how.sum_type, scheme.lanes)
        carry = [(type_, x) for row in sums for vector in row for x in vector]
        step: Integer = this.a_step * row_bytes
        if inner:
            step = f"%step{len(scheme.steps()) - len(steps)}"
        with fn.loop(0, count, 1, carry) as loop:
            x = fn.gep(a, fn.mul(loop.index, step))
            y = fn.gep(b, fn.mul(loop.index, this.b_step * nbytes))
            found = self._loops(inner, x, y, self._shaped(loop.values))
            loop.next = [x for row in found for vector in row for x in vector]
        return self._shaped(loop.results)

    def _step(
        self, a: str, b: str, sums: Tile, at: int = 0, known: dict[int, Vectors] | None = None
    ) -> Tile:
        """One step: the units of each row, `at` bytes behind `a`, times those of the columns.

        `known` are units that earlier steps have loaded, by their distance from `a`.
        """
        fn, scheme, lanes = self.fn, self.scheme, self.scheme.lanes
        how = self.how
        if how.method is MultiplyMethod.BYTE_WORDS:
            return self._widened_step(a, b, sums)
        own = lanes * how.row_unit_bytes if scheme.is_lanewise else 0
        columns = [self._columns(b, j) for j in range(self.vectors)]
        known = {} if known is None else known
        found: Tile = []
        for row, before in zip(self.rows, sums, strict=False):
            after = []
            for j in range(self.vectors):
                place = at + row.units * how.row_unit_bytes + j * own
                if place not in known:
                    known[place] = self._units(a, place, j)
                after.append(
                    how.multiply_add(fn, self.target, lanes, before[j], known[place], columns[j])
                )
            found.append(after)
        for before in sums[len(self.rows) :]:
            units = how.offset_row(fn, lanes)
            pairs = zip(before, columns, strict=True)
            found.append([how.multiply_add(fn, self.target, lanes, x, units, y) for x, y in pairs])
        return found

    def _widened_step(self, a: str, b: str, sums: Tile) -> Tile:
        """The same, one vector of columns after the other: each takes two registers."""
        nbytes = self.scheme.how.row_unit_bytes
        units = [self._units(a, row.units * nbytes, 0) for row in self.rows]
        after: Tile = [[] for _ in units]
        for j in range(self.vectors):
            column = self._columns(b, j)
            for found, before, row in zip(after, sums, units, strict=True):
                given = self.fn, self.target, self.scheme.lanes
                found.append(self.how.multiply_add(*given, before[j], row, column))
        return after

    def _row_at(self, place: str, row: int) -> Vectors:
        """The units of a row at a place, in units from those of the first step."""
        fn, scheme = self.fn, self.scheme
        if row >= len(self.rows):
            return scheme.how.offset_row(fn, scheme.lanes)
        nbytes = scheme.how.row_unit_bytes
        if place not in self.known:
            self.known[place] = fn.gep("%a", fn.mul(place, nbytes))
        return self._units(self.known[place], self.rows[row].units * nbytes, 0)

    def _columns(self, b: str, vector: int) -> Vectors:
        """A vector of units of columns: of a panel, or of the kernel as it lies."""
        fn, scheme, lanes = self.fn, self.scheme, self.scheme.lanes
        panels, first = scheme.kernel_panels, vector * lanes
        if panels is not None:
            first = panels.column_offset(first)
        there = fn.gep(b, first * scheme.column_unit_bytes)
        if not scheme.weights_in_place:
            return self._vector(there, None)
        if scheme.how.method is not MultiplyMethod.S16_LANES:
            return self._vector(there, self._mask(vector))
        kind = scheme.problem.kernel.element_type
        (value,) = self._widened(there, kind, self._mask(vector))
        half = fn.splat("i32", str(0xFFFF), lanes)
        return (fn.op(f"and <{lanes} x i32> {value}, {half}"),)

    def _units(self, a: str, place: int, vector: int) -> Vectors:
        """Units of a row: one in all lanes, or those of each lane."""
        scheme = self.scheme
        how = scheme.how
        mask = self._mask(vector) if scheme.is_lanewise and scheme.in_place else None
        if how.method is MultiplyMethod.S16_LANES:
            kind = ElementType.U8 if how.rows_unsigned else how.element
            return self._widened(self.fn.gep(a, place), kind, mask)
        if scheme.is_lanewise or scheme.is_inward:
            return self._vector(self.fn.gep(a, place), mask)
        align = how.unit_bytes // how.planes // how.group
        return broadcast(self.fn, how, a, place, scheme.lanes, align)

    def _widened(self, pointer: str, kind: ElementType, mask: str | None) -> Vectors:
        """Integers of 8 or 16 bits, with their sign or without, as such of 32 bits."""
        fn, lanes = self.fn, self.scheme.lanes
        narrow = f"<{lanes} x i{kind.bits}>"
        extend = "sext" if kind.is_signed else "zext"
        value = memory.raw(fn, narrow, pointer, mask, kind)
        return (fn.op(f"{extend} {narrow} {value} to <{lanes} x {self.scheme.how.unit}>"),)

    def _vector(self, pointer: str, mask: str | None) -> Vectors:
        scheme = self.scheme
        total = scheme.how.total
        return memory.load(self.fn, self.target, total, pointer, scheme.lanes, mask).names
