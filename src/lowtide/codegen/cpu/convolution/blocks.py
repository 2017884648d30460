"""Blocks of a convolution: of contracted indices, of rows and columns; pieces of work."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from lowtide.codegen.cpu.contraction.scheme import LEAST_UNITS
from lowtide.codegen.cpu.convolution.axes import FEATURE, LANE
from lowtide.codegen.cpu.convolution.cycles import cheapest
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme, seconds_of
from lowtide.records.changed import changed

PANEL_BYTES: Final = 256 << 10
"""A packed panel of the kernel: it stays in the second cache while tiles stream through it."""

NEAR_BYTES: Final = 40 << 10
"""A panel that stays in the first cache, where each step takes other lines of the input."""

SLAB_BYTES: Final = 320 << 10
"""The copy of the input for a block of rows: it stays in the second cache, too."""

LANEWISE_SLAB: Final = 48 << 10
"""Its elements where each lane has its own input: no panel is packed anew for fewer rows."""

SUMS_BYTES: Final = 256 << 10
"""The sums that wait in scratch for the next block."""

SHARED_BYTES: Final = 5 << 18
"""The sums of all shares."""

MOST_ROWS: Final = 1024
"""Rows of a block: enough to pack the kernel for each block anew."""

FEWEST_ROWS: Final = 128
"""Rows of a block, where there is a choice."""

LEAST_ROWS: Final = 48
"""Rows of a block, unless there are fewer, where packing is known to take too long with less."""

LEAST_STEPS: Final = 128
"""Contracted indices of a block, where the work around tiles takes too long with less."""

MOST_STEPS: Final = 1280
"""Contracted indices of a block: each block is one sum, and long sums round more."""

LANEWISE_COLUMNS: Final = 128
"""Columns of a block where each lane has its own input."""

ENOUGH_UNITS: Final = 8
"""Pieces that do where more of them would cost time."""

UNIT_SECONDS: Final = 40e-6
"""How long a piece takes at least, where there is a choice."""

SHARED_STEPS: Final = 192
"""Contracted indices of a block that are not cut further to be shared out."""


def blocked(scheme: ConvolutionScheme, *, is_ready: bool) -> ConvolutionScheme:
    """Return the scheme with all its blocks; without `is_ready` the input has to be computed."""
    scheme = changed(scheme, column_block=_column_block(scheme))
    seconds = seconds_of(scheme.problem, scheme.how, scheme.lanes)
    wanted = min(LEAST_UNITS, int(seconds / UNIT_SECONDS))
    found: list[ConvolutionScheme] = []
    if not _takes_lines(scheme) and not scheme.is_lanewise:
        fitting = list(_candidates(scheme, LEAST_ROWS)) or list(_candidates(scheme, 1))
        found = [_shared_out(_fewer_columns(x), wanted) for x in fitting]
    if not found:
        whole = _with_inner_blocks(scheme)
        found = [_shared_out(x, wanted) for x in _row_ways(whole)]
    return cheapest(found, is_ready=is_ready)


# -- the blocks that take the least time ----------------------------------------------------------


def _candidates(scheme: ConvolutionScheme, least_rows: int) -> Iterator[ConvolutionScheme]:
    """Blocks of contracted indices and rows whose input and panels fit the second cache.

    Blocks have `least_rows` rows, or all.
    """
    sizes = [changed(scheme, feature_block=x, tap_blocks=y) for x, y in _inner_blocks(scheme)]
    sizes = [x for x in sizes if x.panel_bytes <= PANEL_BYTES]
    least_rows = min(least_rows, scheme.problem.rows)
    for dim in range(scheme.tile_dim, -1, -1):
        unit = scheme.tile_rows if dim == scheme.tile_dim else 1
        size = scheme.rows[dim].size
        for count in sorted({_even(size, x * unit, unit) for x in _halves(-(-size // unit))}):
            rows = changed(scheme, block_dim=dim, block=count)
            height = rows.block_tiles * rows.tile_height
            if height > MOST_ROWS:
                return
            if height >= least_rows:
                found = [changed(x, block_dim=dim, block=count) for x in sizes]
                yield from [x for x in found if x.slab_bytes <= SLAB_BYTES]


def _inner_blocks(scheme: ConvolutionScheme) -> list[tuple[int, tuple[int, ...]]]:
    """Sizes of blocks of features, and of the window's places: mostly all of these.

    A window so large that a vector of features is too long a sum is cut itself, where the last
    vector of features would have lanes to spare: they take as long as the others.
    """
    found = [(x, scheme.tap_blocks) for x in _feature_blocks(scheme)]
    is_long = min([x for x, _ in found]) * prod(scheme.tap_blocks) > MOST_STEPS
    if is_long and scheme.problem.features % scheme.lanes:
        found += [(scheme.feature_block, x) for x in _tap_blocks(scheme)]
    return found


def _tap_blocks(scheme: ConvolutionScheme) -> list[tuple[int, ...]]:
    """Blocks of the places of a window: nearly equal parts along the longest of its dimensions."""
    whole = scheme.tap_blocks
    axis = max(range(len(whole)), key=lambda x: (whole[x], -x))
    rest = scheme.block_steps // whole[axis]
    sizes = sorted({-(-whole[axis] // x) for x in _halves(whole[axis])})
    fitting = [x for x in sizes if LEAST_STEPS <= x * rest <= MOST_STEPS]
    return [(*whole[:axis], x, *whole[axis + 1 :]) for x in fitting]


def _feature_blocks(scheme: ConvolutionScheme) -> list[int]:
    """Sizes of blocks of features: nearly equal parts in whole vectors."""
    features, lanes = scheme.problem.features, scheme.lanes
    if features <= lanes:
        return [scheme.feature_block]
    vectors = -(-features // lanes)
    parts = [*_halves(vectors), *[3 * x for x in _halves(vectors // 3)]]
    taps = prod(scheme.tap_blocks)
    found = {-(-vectors // x) * lanes for x in parts}
    found = {x for x in found if x * taps >= LEAST_STEPS or x >= features}
    found = {x for x in found if x * taps <= MOST_STEPS} or {min(found)}
    return sorted({x if x < features else scheme.feature_block for x in found})


def _halves(most: int) -> list[int]:
    """Return powers of 2, and the number at which they end."""
    return [*[1 << i for i in range((most - 1).bit_length())], most] if most > 0 else []


# -- blocks that fit, features first ---------------------------------------------------------------


def _column_block(scheme: ConvolutionScheme) -> int:
    if not scheme.is_lanewise:
        return scheme.panels
    return min(scheme.panels, max(1, LANEWISE_COLUMNS // scheme.columns))


def _with_inner_blocks(scheme: ConvolutionScheme) -> ConvolutionScheme:
    """Cut the contracted indices until a panel, and the input of some rows, fit their caches."""
    least = _with_few_rows(scheme)
    most = NEAR_BYTES if _takes_lines(scheme) else PANEL_BYTES
    while (
        least.panel_bytes > most
        or least.slab_bytes > SLAB_BYTES
        or (least.weights_in_place and least.block_steps > MOST_STEPS)
    ):
        found = _cut_further(least)
        if found is None:
            break
        least = found
    return changed(scheme, feature_block=least.feature_block, tap_blocks=least.tap_blocks)


def _takes_lines(scheme: ConvolutionScheme) -> bool:
    """Whether each step along the contracted indices takes other lines of the input."""
    return scheme.last_kind not in (FEATURE, LANE)


def _with_few_rows(scheme: ConvolutionScheme) -> ConvolutionScheme:
    """Return the scheme with the least block of rows for which it pays to pack a panel.

    There are fewer where the input of so many does not fit its cache, since their places lie far
    apart: to cut the window would save little of it.
    """
    fewest = FEWEST_ROWS
    found = _with_least_rows(scheme, fewest)
    while fewest > 1 and _one_feature_bytes(found) > SLAB_BYTES:
        fewest //= 2
        fewer = _with_least_rows(scheme, fewest)
        if 4 * _one_feature_bytes(fewer) > 3 * _one_feature_bytes(found):
            break
        found = fewer
    return found


def _one_feature_bytes(scheme: ConvolutionScheme) -> int:
    """The bytes of the input of a block of rows, of the fewest features."""
    return changed(scheme, feature_block=min(scheme.feature_block, scheme.lanes)).slab_bytes


def _with_least_rows(scheme: ConvolutionScheme, fewest: int) -> ConvolutionScheme:
    """Return the scheme with a block of `fewest` rows, rounded up to tiles, or of all."""
    rows, dim = 1, len(scheme.rows)
    while dim > 0 and (rows < fewest or dim > scheme.tile_dim):
        dim -= 1
        inner, rows = rows, rows * scheme.rows[dim].size
    block = min(scheme.rows[dim].size, -(-fewest // inner))
    if dim == scheme.tile_dim:
        block = -(-block // scheme.tile_rows) * scheme.tile_rows
    return changed(scheme, block_dim=dim, block=block)


def _cut_further(scheme: ConvolutionScheme) -> ConvolutionScheme | None:
    """Cut the contracted indices once more: features first, then the outermost taps."""
    if scheme.feature_block > 1:
        is_last = min([x.step for x in scheme.axes() if x.kind == FEATURE]) == 1
        unit = scheme.lanes if is_last or scheme.is_inward else 1
        size = -(-scheme.problem.features // _more(scheme.feature_blocks))
        size = -(-size // unit) * unit
        if size < scheme.feature_block:
            return changed(scheme, feature_block=size)
    for i, size in enumerate(scheme.tap_blocks):
        if size > 1:
            parts = _more(scheme.tap_parts[i])
            smaller = min(size - 1, -(-scheme.problem.spatial[i].taps // parts))
            blocks = (*scheme.tap_blocks[:i], smaller, *scheme.tap_blocks[i + 1 :])
            return changed(scheme, tap_blocks=blocks)
    return None


def _more(parts: int) -> int:
    """More parts, in steps that grow, so that many parts take few steps."""
    return parts + 1 + parts // 8


def _row_ways(scheme: ConvolutionScheme) -> Iterator[ConvolutionScheme]:
    """Blocks of rows as scratch allows, and as the stack does: of all columns, or of some."""
    yield _with_rows(scheme, SLAB_BYTES)
    if not scheme.stack_bytes:
        return
    parts = _halves(scheme.column_block) if scheme.is_lanewise else [scheme.column_block]
    for count in parts:
        yield _with_rows(changed(scheme, column_block=count), scheme.stack_bytes)


def _with_rows(scheme: ConvolutionScheme, most: int) -> ConvolutionScheme:
    """Choose the block of rows: as many as scratch allows, with `most` bytes of the input."""
    best = changed(scheme, block_dim=scheme.tile_dim, block=scheme.tile_rows)
    for dim in range(scheme.tile_dim, -1, -1):
        size = scheme.rows[dim].size
        unit = scheme.tile_rows if dim == scheme.tile_dim else 1
        low, high = 1, -(-size // unit)
        while low <= high:
            middle = (low + high) // 2
            found = changed(scheme, block_dim=dim, block=_even(size, middle * unit, unit))
            if _rows_fit(found, most):
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


def _rows_fit(scheme: ConvolutionScheme, most: int) -> bool:
    count = scheme.block_tiles * scheme.tile_height
    if scheme.is_lanewise:
        most = min(most, LANEWISE_SLAB * scheme.how.row_unit_bytes)
    if count > MOST_ROWS or scheme.slab_bytes > most:
        return False
    sums = scheme.block_tiles * scheme.tile_sums * scheme.how.unit_bytes
    return not scheme.keeps_sums or sums <= SUMS_BYTES


def _fewer_columns(scheme: ConvolutionScheme) -> ConvolutionScheme:
    """Cut the columns where their sums do not fit the scratch."""
    if not scheme.keeps_sums or scheme.block_sums_bytes <= SUMS_BYTES:
        return scheme
    parts = -(-scheme.panels // max(1, SUMS_BYTES // scheme.sums_bytes(1)))
    return changed(scheme, column_block=-(-scheme.panels // parts))


# -- pieces of work --------------------------------------------------------------------------------


def _shared_out(scheme: ConvolutionScheme, wanted: int) -> ConvolutionScheme:
    """Cut a scheme into `wanted` pieces, about, so that several threads get equal shares."""
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


def _with_shares(scheme: ConvolutionScheme, wanted: int) -> ConvolutionScheme:
    found: ConvolutionScheme | None = scheme
    while found is not None and found.row_units * found.inner_blocks < wanted:
        scheme, found = found, _cut_further(found)
        if found is not None and found.block_steps < SHARED_STEPS:
            break
    parts = min(scheme.inner_blocks, -(-wanted // scheme.row_units))
    each = scheme.row_units * scheme.block_sums_bytes
    parts = min(parts, SHARED_BYTES // each)
    return changed(scheme, shares=parts) if parts > 1 else scheme


def _with_smaller_blocks(scheme: ConvolutionScheme, wanted: int, fewest: int) -> ConvolutionScheme:
    """Halve blocks of rows while they have enough rows."""
    while scheme.row_units * scheme.shares < wanted:
        found = _halved(scheme)
        if found is None or found.block_tiles * found.tile_height < fewest:
            return scheme
        scheme = found
    return scheme


def _halved(scheme: ConvolutionScheme) -> ConvolutionScheme | None:
    dim, block = scheme.block_dim, scheme.block
    unit = scheme.tile_rows if dim == scheme.tile_dim else 1
    if block > unit:
        return changed(scheme, block=-(-(block // 2) // unit) * unit)
    if dim == scheme.tile_dim:
        return None
    size = scheme.rows[dim + 1].size
    unit = scheme.tile_rows if dim + 1 == scheme.tile_dim else 1
    return changed(scheme, block_dim=dim + 1, block=-(-size // unit) * unit)


def _with_fewer_columns(scheme: ConvolutionScheme, wanted: int) -> ConvolutionScheme:
    """Cut the columns into no more blocks than are wanted."""
    panels, size = scheme.panels, scheme.column_block
    blocks = scheme.block_count * scheme.shares
    for parts in range(scheme.column_blocks, panels + 1):
        size = -(-panels // parts)
        if blocks * -(-panels // size) >= wanted:
            break
    return changed(scheme, column_block=size)
