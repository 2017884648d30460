"""Which tile and which blocks suit a convolution, by its shape alone."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from lowtide.codegen.contraction.arithmetic import Arithmetic
from lowtide.codegen.contraction.tiles import LATENCY, PORTS
from lowtide.codegen.convolution.problem import Problem
from lowtide.codegen.convolution.scheme import BATCH, FEATURE, LANE, Row, Scheme, seconds_of
from lowtide.codegen.reading import strides
from lowtide.ir import Instruction, Opcode
from lowtide.llvm.target import Target

PANEL_BYTES: Final = 256 << 10
"""A packed panel of the kernel: it stays in the second cache while tiles stream through it."""

NEAR_BYTES: Final = 40 << 10
"""A panel that stays in the first cache, where each step takes other lines of the input."""

SLAB_BYTES: Final = 320 << 10
"""The copy of the input for a block of rows: it stays in the second cache, too."""

SUMS_BYTES: Final = 256 << 10
"""The sums that wait in scratch for the next block."""

SHARED_BYTES: Final = 5 << 18
"""The sums of all shares."""

MOST_ROWS: Final = 1024
"""Rows of a block: enough to pack the kernel for each block anew."""

FEWEST_ROWS: Final = 128
"""Rows of a block, where there is a choice."""

LANEWISE_COLUMNS: Final = 128
"""Columns of a block where each lane has its own input."""

LEAST_UNITS: Final = 16
"""Pieces of work that a product of some size is cut into, so that all threads get equal shares."""

ENOUGH_UNITS: Final = 8
"""Pieces that do where more of them would cost time."""

UNIT_SECONDS: Final = 40e-6
"""How long a piece takes at least, where there is a choice."""

MOST_INWARD: Final = 8
"""Columns that are vectors of their own: so many leave registers for several rows."""

_PER_TILE: Final = 24
"""Cycles around a tile: the call, and filling and emptying the pipeline."""

_STREAM: Final = 20
"""Bytes of a panel that come from the second cache in a cycle, beside all else."""

SHARED_STEPS: Final = 192
"""Contracted indices of a block that are not cut further to be shared out."""


def choose(
    problem: Problem, how: Arithmetic, target: Target, data: Instruction, *, has_finish: bool
) -> Scheme:
    """Return the scheme of a convolution of `data`, which is a parameter or computed."""
    lanes = how.lanes(target)
    found = _scheme(problem, how, target, data, has_finish, _is_inward(problem, how, lanes))
    if found.is_inward and found.inner_blocks > 1:
        return _scheme(problem, how, target, data, has_finish, False)
    return found


def _scheme(
    problem: Problem,
    how: Arithmetic,
    target: Target,
    data: Instruction,
    has_finish: bool,
    is_inward: bool,
) -> Scheme:
    """The scheme with lanes along features, where those are all in one block, or along columns."""
    lanes = how.lanes(target)
    is_lanewise = not is_inward and problem.groups > 1 and problem.outputs * 2 <= lanes
    rows = _rows(problem)
    in_place = not is_lanewise and _lies_ready(problem, how, data)
    in_place = in_place and not (is_inward and problem.features % lanes)
    taps = tuple([max(1, x.taps) for x in problem.spatial])
    found = Scheme(
        problem, how, lanes, is_lanewise, is_inward, in_place, has_finish or is_inward, rows,
        len(rows) - 1, 1, 1, len(rows) - 1, 1, problem.features, taps, 1,
    )  # fmt: skip
    if is_inward:
        found = replace(found, feature_block=-(-problem.features // lanes) * lanes)
    found = _tiled(found, target)
    found = replace(found, column_block=_column_block(found))
    found = _with_inner_blocks(found)
    found = _with_rows(found)
    return _shared_out(found)


def _is_inward(problem: Problem, how: Arithmetic, lanes: int) -> bool:
    """Whether so few columns take fewer steps if the lanes are features, which lie together."""
    if how.planes != 1 or strides(problem.input)[problem.numbers.input_feature] != 1:
        return False
    outward = problem.features * -(-problem.outputs // lanes)
    inward = problem.outputs * -(-problem.features // lanes)
    return problem.outputs <= MOST_INWARD and 4 * inward <= 3 * outward


def _rows(problem: Problem) -> tuple[Row, ...]:
    """The dimensions of rows in the order in which the result has them in memory."""
    numbers, steps = problem.numbers, strides(problem.output)
    found = [Row(BATCH, problem.batch, problem.batch, steps[numbers.output_batch])]
    for i, (x, d) in enumerate(zip(problem.spatial, numbers.output_spatial, strict=True)):
        found.append(Row(i, x.count, x.least, steps[d] * x.output_step))
    dims = [numbers.output_batch, *numbers.output_spatial]
    order = sorted(range(len(found)), key=lambda i: (-steps[dims[i]], found[i].size == 1))
    return tuple([found[i] for i in order])


def _lies_ready(problem: Problem, how: Arithmetic, data: Instruction) -> bool:
    """Whether the input can be read where it is: no padding, no conversion."""
    is_plain = data.opcode is Opcode.PARAMETER and data.shape.element_type is how.element
    if not is_plain and not _same_bits(data, how):
        return False
    return all(x.stays_inside for x in problem.spatial)


def _same_bits(data: Instruction, how: Arithmetic) -> bool:
    type_ = data.shape.element_type
    return (
        data.opcode is Opcode.PARAMETER
        and type_.is_integer
        and how.element.is_integer
        and type_.bits == how.element.bits
    )


# -- tiles -----------------------------------------------------------------------------------------


def _tiled(scheme: Scheme, target: Target) -> Scheme:
    """Choose the tile for which all rows and columns take the fewest cycles."""
    best: tuple[float, int, Scheme] | None = None
    planes = scheme.how.planes
    most = _most_rows(scheme)
    vectors_at_most = -(-scheme.all_columns // scheme.lanes)
    widths = range(1, vectors_at_most + 1)
    if scheme.is_inward:
        widths = range(scheme.columns, scheme.columns + 1)
    for dim in range(len(scheme.rows) - 1, -1, -1):
        inner = prod([x.size for x in scheme.rows[dim + 1 :]])
        if inner > most or any(x.size != x.least for x in scheme.rows[dim + 1 :]):
            break
        for rows in range(1, min(scheme.rows[dim].least, most // inner) + 1):
            for vectors in widths:
                height = rows * inner
                if planes * (height * vectors + vectors + 1) + planes - 1 > target.registers:
                    break
                found = replace(scheme, tile_dim=dim, tile_rows=rows, vectors=vectors)
                key = (_cycles(found), height)
                if best is None or key < best[:2]:
                    best = (*key, found)
    assert best is not None
    return best[2]


def _most_rows(scheme: Scheme) -> int:
    """At most 14 rows; 8 where they fall into the same sets of the first cache."""
    if not scheme.in_place:
        return 14
    at = {x.kind: x.step for x in scheme.axes()}
    last = scheme.rows[-1]
    step = at[last.axis] * scheme.how.unit_bytes
    if last.axis != BATCH:
        step *= scheme.problem.spatial[last.axis].stride
    return 8 if step % 2048 == 0 else 14


def _cycles(scheme: Scheme) -> float:
    """Cycles of a step over all tiles, with what is spent around them."""
    rows = scheme.rows
    along = -(-rows[scheme.tile_dim].size // scheme.tile_rows)
    tiles = along * prod([x.size for x in rows[: scheme.tile_dim]])
    last = -(-scheme.last_columns // scheme.lanes)
    widths = [(scheme.vectors, scheme.panels - 1), (last, 1)]
    if scheme.is_inward:
        widths = [(scheme.vectors, 1)]
    around = _PER_TILE / min(512, max(8, scheme.block_steps))
    height, planes = scheme.tile_height, scheme.how.planes
    return tiles * sum(
        [
            count * (max(_step(scheme, height, width), LATENCY * planes) + around)
            for width, count in widths
        ]
    )


def _step(scheme: Scheme, rows: int, vectors: int) -> float:
    planes = scheme.how.planes
    multiplications = rows * vectors * planes * planes / PORTS
    own = rows * vectors if scheme.is_lanewise else rows
    loads = (own + vectors) * planes / PORTS
    streamed = vectors * scheme.lanes * scheme.how.unit_bytes / _STREAM
    return max(multiplications, loads, streamed)


# -- blocks ----------------------------------------------------------------------------------------


def _column_block(scheme: Scheme) -> int:
    if not scheme.is_lanewise:
        return scheme.panels
    return min(scheme.panels, max(1, LANEWISE_COLUMNS // scheme.columns))


def _with_inner_blocks(scheme: Scheme) -> Scheme:
    """Cut the contracted indices until a panel, and the input of some rows, fit their caches."""
    least = _with_few_rows(scheme)
    most = NEAR_BYTES if _takes_lines(scheme) else PANEL_BYTES
    while least.panel_bytes > most or least.slab_bytes > SLAB_BYTES:
        found = _cut_further(least)
        if found is None:
            break
        least = found
    return replace(scheme, feature_block=least.feature_block, tap_blocks=least.tap_blocks)


def _takes_lines(scheme: Scheme) -> bool:
    """Whether each step along the contracted indices takes other lines of the input."""
    return scheme.axes()[-1].kind not in (FEATURE, LANE)


def _with_few_rows(scheme: Scheme) -> Scheme:
    """Return the scheme with the least block of rows for which it pays to pack a panel."""
    rows, dim = 1, len(scheme.rows)
    while dim > 0 and (rows < FEWEST_ROWS or dim > scheme.tile_dim):
        dim -= 1
        inner, rows = rows, rows * scheme.rows[dim].size
    block = min(scheme.rows[dim].size, -(-FEWEST_ROWS // inner))
    if dim == scheme.tile_dim:
        block = -(-block // scheme.tile_rows) * scheme.tile_rows
    return replace(scheme, block_dim=dim, block=block)


def _cut_further(scheme: Scheme) -> Scheme | None:
    """Cut the contracted indices once more: features first, then the outermost taps."""
    if scheme.feature_block > 1:
        is_last = min([x.step for x in scheme.axes() if x.kind == FEATURE]) == 1
        unit = scheme.lanes if is_last or scheme.is_inward else 1
        size = -(-scheme.problem.features // _more(scheme.feature_blocks))
        size = -(-size // unit) * unit
        if size < scheme.feature_block:
            return replace(scheme, feature_block=size)
    for i, size in enumerate(scheme.tap_blocks):
        if size > 1:
            parts = _more(scheme.tap_parts[i])
            smaller = min(size - 1, -(-scheme.problem.spatial[i].taps // parts))
            blocks = (*scheme.tap_blocks[:i], smaller, *scheme.tap_blocks[i + 1 :])
            return replace(scheme, tap_blocks=blocks)
    return None


def _more(parts: int) -> int:
    """More parts, in steps that grow, so that many parts take few steps."""
    return parts + 1 + parts // 8


def _with_rows(scheme: Scheme) -> Scheme:
    """Choose the block of rows: as many as scratch allows, up to a limit."""
    best = replace(scheme, block_dim=scheme.tile_dim, block=scheme.tile_rows)
    for dim in range(scheme.tile_dim, -1, -1):
        size = scheme.rows[dim].size
        unit = scheme.tile_rows if dim == scheme.tile_dim else 1
        low, high = 1, -(-size // unit)
        while low <= high:
            middle = (low + high) // 2
            found = replace(scheme, block_dim=dim, block=_even(size, middle * unit, unit))
            if _rows_fit(found):
                best, low = found, middle + 1
            else:
                high = middle - 1
        if best.block_dim != dim or best.block < size:
            break
    return _fewer_columns(best)


def _even(size: int, most: int, unit: int) -> int:
    """Blocks of nearly equal sizes, each a multiple of `unit` and at most `most`."""
    parts = -(-size // most)
    each = -(-size // parts)
    return -(-each // unit) * unit


def _rows_fit(scheme: Scheme) -> bool:
    count = scheme.block_tiles * scheme.tile_height
    if count > MOST_ROWS or scheme.slab_bytes > SLAB_BYTES:
        return False
    sums = scheme.block_tiles * scheme.tile_sums * scheme.how.unit_bytes
    return not scheme.keeps_sums or sums <= SUMS_BYTES


def _fewer_columns(scheme: Scheme) -> Scheme:
    """Cut the columns where their sums do not fit the scratch."""
    if not scheme.keeps_sums or scheme.block_sums_bytes <= SUMS_BYTES:
        return scheme
    one = replace(scheme, column_block=1).block_sums_bytes
    parts = -(-scheme.panels // max(1, SUMS_BYTES // one))
    return replace(scheme, column_block=-(-scheme.panels // parts))


# -- pieces of work --------------------------------------------------------------------------------


def _shared_out(scheme: Scheme) -> Scheme:
    """Cut a scheme into more pieces where there are too few for several threads."""
    seconds = seconds_of(scheme.problem, scheme.how, scheme.lanes)
    wanted = min(LEAST_UNITS, int(seconds / UNIT_SECONDS))
    if scheme.row_units >= wanted:
        return scheme
    enough = min(wanted, ENOUGH_UNITS)
    if _takes_lines(scheme):
        wanted = enough
    if _takes_lines(scheme) and scheme.inner_blocks * scheme.block_steps > 4 * scheme.problem.rows:
        scheme = _with_shares(scheme, enough)
        if scheme.row_units * scheme.shares >= enough:
            return scheme
    scheme = _with_fewer_columns(scheme, wanted)
    scheme = _with_smaller_blocks(scheme, wanted, FEWEST_ROWS)
    scheme = scheme if scheme.is_shared else _with_shares(scheme, enough)
    return _with_smaller_blocks(scheme, enough, 1)


def _with_shares(scheme: Scheme, wanted: int) -> Scheme:
    found: Scheme | None = scheme
    while found is not None and found.row_units * found.inner_blocks < wanted:
        scheme, found = found, _cut_further(found)
        if found is not None and found.block_steps < SHARED_STEPS:
            break
    parts = min(scheme.inner_blocks, -(-wanted // scheme.row_units))
    each = scheme.row_units * scheme.block_sums_bytes
    parts = min(parts, SHARED_BYTES // each)
    return replace(scheme, shares=parts) if parts > 1 else scheme


def _with_smaller_blocks(scheme: Scheme, wanted: int, fewest: int) -> Scheme:
    """Halve blocks of rows while they have enough rows."""
    while scheme.row_units * scheme.shares < wanted:
        found = _halved(scheme)
        if found is None or found.block_tiles * found.tile_height < fewest:
            return scheme
        scheme = found
    return scheme


def _halved(scheme: Scheme) -> Scheme | None:
    dim, block = scheme.block_dim, scheme.block
    unit = scheme.tile_rows if dim == scheme.tile_dim else 1
    if block > unit:
        return replace(scheme, block=-(-(block // 2) // unit) * unit)
    if dim == scheme.tile_dim:
        return None
    size = scheme.rows[dim + 1].size
    unit = scheme.tile_rows if dim + 1 == scheme.tile_dim else 1
    return replace(scheme, block_dim=dim + 1, block=-(-size // unit) * unit)


def _with_fewer_columns(scheme: Scheme, wanted: int) -> Scheme:
    """Cut the columns into no more blocks than are wanted."""
    for parts in range(scheme.column_blocks, scheme.panels + 1):
        scheme = replace(scheme, column_block=-(-scheme.panels // parts))
        if scheme.row_units * scheme.shares >= wanted:
            break
    return scheme
