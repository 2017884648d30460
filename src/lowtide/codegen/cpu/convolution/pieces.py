"""The place of a piece of work: its group, phases, block of rows and block of columns."""

from __future__ import annotations

from lowtide.codegen.cpu.convolution.axes import BATCH, Row
from lowtide.codegen.cpu.convolution.problem import Spatial
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class PhaseValues:
    """The numbers of a phase, which depend on the piece where there are several."""

    start: Integer
    count: Integer
    taps: Integer
    tap: Integer
    offset: Integer


@dataclass(frozen=True, slots=True)
class RowSpan:
    """What a piece covers along a row dimension: `count` indices from `origin` on.

    Those before `nominal` belong to another piece. `size` is that of the phase.
    """

    nominal: Integer
    origin: Integer
    count: Integer
    size: Integer


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work: `number` among those of a share, and what that says.

    `tests` are i1 that all have to hold, or there is nothing to do.
    """

    number: Integer
    share: Integer
    group: Integer
    column_block: Integer
    phases: tuple[PhaseValues, ...]
    spans: tuple[RowSpan, ...]
    tests: tuple[str, ...]


def piece_of(fn: Function, scheme: ConvolutionScheme, unit: Integer) -> Piece:
    """Take the number of a piece apart: shares, groups, phases, rows, columns fastest."""
    share = fn.div(unit, scheme.row_units) if scheme.is_shared else 0
    number = fn.rem(unit, scheme.row_units) if scheme.is_shared else unit
    digits = _Digits(fn, number)
    column_block = digits.next(scheme.column_blocks)
    block = digits.next(scheme.blocks)
    outer = [digits.next(x.size) for x in reversed(scheme.rows[: scheme.block_dim])][::-1]
    phases = []
    for axis, spatial in reversed(list(enumerate(scheme.problem.spatial))):
        phases.append(_phase(fn, axis, spatial, digits.next(len(spatial.phases))))
    phases.reverse()
    spans = [
        _span(fn, scheme, d, _size(scheme, row, phases), (*outer, block))
        for d, row in enumerate(scheme.rows)
    ]
    tests = [
        fn.compare("slt", x.nominal, x.size)
        for d, x in enumerate(spans)
        if d <= scheme.block_dim and isinstance(x.size, str)
    ]
    group = digits.next(scheme.groups)
    return Piece(number, share, group, column_block, tuple(phases), tuple(spans), tuple(tests))


@dataclass(eq=False, slots=True)
class _Digits:
    fn: Function
    rest: Integer

    def next(self, size: int) -> Integer:
        """The last digit of what is left."""
        digit = self.fn.rem(self.rest, size)
        self.rest = self.fn.div(self.rest, size)
        return digit


def _phase(fn: Function, axis: int, spatial: Spatial, number: Integer) -> PhaseValues:
    if len(spatial.phases) == 1:
        (x,) = spatial.phases
        return PhaseValues(x.start, x.count, x.taps, x.tap, x.offset)
    row = fn.gep(f"@phases.{axis}", fn.mul(number, 5), "i64")
    values = [fn.load("i64", fn.gep(row, i, "i64"), 8) for i in range(5)]
    return PhaseValues(*values)


def phase_tables(scheme: ConvolutionScheme) -> str:
    """Return the constants from which the numbers of phases are read."""
    lines = []
    for axis, spatial in enumerate(scheme.problem.spatial):
        numbers = [n for x in spatial.phases for n in (x.start, x.count, x.taps, x.tap, x.offset)]
        text = ", ".join([f"i64 {n}" for n in numbers])
        if len(spatial.phases) > 1:
            lines.append(f"@phases.{axis} = private constant [{len(numbers)} x i64] [{text}]")
    return "\n".join(lines)


def _size(scheme: ConvolutionScheme, row: Row, phases: list[PhaseValues]) -> Integer:
    return scheme.problem.batch if row.axis == BATCH else phases[row.axis].count


def _span(
    fn: Function, scheme: ConvolutionScheme, dim: int, size: Integer, before: tuple[Integer, ...]
) -> RowSpan:
    if dim < scheme.block_dim:
        return RowSpan(before[dim], before[dim], 1, size)
    if dim > scheme.block_dim:
        return RowSpan(0, 0, size, size)
    count = fn.min(scheme.block, size)
    nominal = fn.mul(before[dim], scheme.block) if scheme.blocks > 1 else 0
    return RowSpan(nominal, fn.min(nominal, fn.sub(size, count)), count, size)
