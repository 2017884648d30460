"""Blocks of an attention, and their places in the scratch of a thread."""

from __future__ import annotations

from math import prod
from typing import Final

from lowtide.codegen.cpu.attention.form import Attention, Scores, sum_type
from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic, MultiplyMethod
from lowtide.codegen.cpu.contraction.operands import OperandSide
from lowtide.codegen.cpu.contraction.views import view_of
from lowtide.codegen.kernel import rounded
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MOST_ROWS: Final = 64
"""Rows of a block: keys and values are packed once for all of them."""

BLOCK_BYTES: Final = 1 << 18
"""Bytes of the scores of a block of rows, at most where rows are short enough."""

LEAST_ROWS: Final = 6
"""Rows of a block where rows are long: as many as are multiplied at once."""

TILE_ROWS: Final = 6
"""Rows that are multiplied at once."""

PACKED_STEPS: Final = 128
"""Values of a row that are packed at once."""


@dataclass(frozen=True, slots=True)
class AttentionProduct:
    """A dot of the kernel: rows in scratch times packed columns.

    `row_step` are the elements between rows; `panel` the most columns of a packed panel.
    """

    how: Arithmetic
    lanes: int
    panel: int
    row_step: int
    columns: OperandSide
    rows: OperandSide


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """The sizes of blocks, and offsets in the scratch of a thread, in bytes.

    `steps` are the elements between the rows of each first dot's scores; `weights_step`,
    `sums_step` those of weights and of sums.
    """

    form: Attention
    rows: int
    firsts: tuple[AttentionProduct, ...]
    last: AttentionProduct
    steps: tuple[int, ...]
    weights_step: int
    sums_step: int
    packed: int
    query: int
    scores: tuple[int, ...]
    weights: int
    sums: int
    nbytes: int

    @property
    def row_count(self) -> int:
        """The number of rows that share keys and values."""
        return prod(self.form.sizes(self.form.block))

    @property
    def block_count(self) -> int:
        """The number of blocks of rows that share keys and values."""
        return -(-self.row_count // self.rows)

    @property
    def units(self) -> int:
        """The number of blocks."""
        return prod(self.form.sizes(self.form.fixed)) * self.block_count


def blocks_of(form: Attention, target: Target) -> Blocks:
    """Return how an attention is cut into blocks; it depends on sizes and the target only."""
    firsts = tuple([_first(form, x, target) for x in form.scores])
    last = _last(form, target)
    steps = tuple([up(x.length, y.panel) for x, y in zip(form.scores, firsts, strict=True)])
    weights_step = up(form.length, last.lanes)
    if form.is_aligned:
        weights_step = max(weights_step, steps[0])
    sums_step = up(form.geometry.n, last.lanes)
    rows = _rows(form, max(weights_step, *steps))
    offset = 0

    def placed(count: int, how: Arithmetic) -> int:
        nonlocal offset
        first = offset
        offset += rounded(count * how.unit_bytes)
        return first

    widest = max([x.row_step * x.panel for x in firsts], default=0)
    packed = placed(max(widest, PACKED_STEPS * last.panel), last.how)
    query = placed(rows * max([x.row_step for x in firsts]), last.how)
    scores = tuple([placed(rows * x, y.how) for x, y in zip(steps, firsts, strict=True)])
    weights = scores[0] if form.is_aligned else placed(rows * weights_step, last.how)
    sums = placed(rows * sums_step, last.how)
    if form.is_aligned:
        steps = (weights_step,)
    return Blocks(
        form, rows, firsts, last, steps, weights_step, sums_step, packed, query, scores, weights,
        sums, offset,
    )  # fmt: skip


def up(count: int, unit: int) -> int:
    """Return the least multiple of a unit that is not less."""
    return -(-count // unit) * unit


def _rows(form: Attention, step: int) -> int:
    """Rows of a block, about as many in each block."""
    count = prod(form.sizes(form.block))
    most = min(MOST_ROWS, max(LEAST_ROWS, BLOCK_BYTES // (4 * step)))
    return -(-count // -(-count // most))


def _arithmetic(form: Attention) -> Arithmetic:
    """All dots add up in one type, which is that of what lies in scratch."""
    dots = [form.dot, *[x.dot for x in form.scores]]
    total = sum_type(*[y.shape.element_type for x in dots for y in (x, *x.operands)])
    return Arithmetic(MultiplyMethod.FLOAT, total, total)


def _panel(target: Target, lanes: int, count: int) -> int:
    vectors = 4 if target.registers >= 32 else 2
    return min(vectors, -(-count // lanes)) * lanes


def _first(form: Attention, scores: Scores, target: Target) -> AttentionProduct:
    how = _arithmetic(form)
    lanes = how.lanes(target)
    shape = scores.geometry
    keys = _side(form, scores.dot.operands[scores.key_side], scores, keys=True)
    rows = _side(form, scores.dot.operands[1 - scores.key_side], scores, keys=False)
    return AttentionProduct(
        how, lanes, _panel(target, lanes, shape.n), up(shape.k, lanes), keys, rows
    )


def _last(form: Attention, target: Target) -> AttentionProduct:
    how = _arithmetic(form)
    lanes = how.lanes(target)
    shape = form.geometry
    values = form.dot.operands[1 - form.side]
    columns = OperandSide(
        values, shape.columns, view_of(values, form.instruction), form.instruction
    )
    rows = OperandSide(form.weights, shape.rows, None, form.instruction)
    return AttentionProduct(how, lanes, _panel(target, lanes, shape.n), 0, columns, rows)


def _side(form: Attention, operand: Instruction, scores: Scores, *, keys: bool) -> OperandSide:
    shape = scores.geometry
    roles = shape.columns if keys else shape.rows
    return OperandSide(operand, roles, view_of(operand, form.instruction), form.instruction)


def is_real(*types: ElementType) -> bool:
    """Whether the dots can be added up in floating point."""
    return all(x.is_floating for x in types)
