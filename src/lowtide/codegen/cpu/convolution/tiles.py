"""The tiles of a convolution: their loops, where each reads and adds up, and the border."""

from __future__ import annotations

from dataclasses import replace

from lowtide.codegen.arrays import strides
from lowtide.codegen.cpu.convolution.asking import ask_for_later
from lowtide.codegen.cpu.convolution.axes import BATCH, FEATURE
from lowtide.codegen.cpu.convolution.pieces import Piece
from lowtide.codegen.cpu.convolution.scheme import ConvolutionScheme
from lowtide.codegen.cpu.convolution.tile import outer_steps, row_step
from lowtide.codegen.cpu.convolution.work import InputBlock, PackedPanel, WrittenPhase
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


def write_tiles(
    work: WrittenPhase, piece: Piece, block: InputBlock | None, panel: PackedPanel
) -> None:
    """Write the loops over the tiles of a block of rows."""

    def along(dim: int, at: list[Integer], number: Integer) -> None:
        fn, scheme = work.fn, work.scheme
        span = piece.spans[dim]
        if dim < scheme.tile_dim:
            start = fn.sub(span.nominal, span.origin)
            with fn.loop(start, span.count) as loop:
                index = fn.add(fn.mul(number, scheme.extent_of(dim)), loop.index)
                along(dim + 1, [*at, loop.index], index)
            return
        left = (
            fn.min(fn.sub(span.size, span.nominal), scheme.block)
            if (dim == scheme.block_dim)
            else span.size
        )
        count = fn.div(fn.add(left, scheme.tile_rows - 1), scheme.tile_rows)
        with fn.loop(0, count) as loop:
            wanted = fn.add(span.nominal, fn.mul(loop.index, scheme.tile_rows))
            place = fn.min(wanted, fn.sub(span.size, scheme.tile_rows))
            index = fn.add(fn.mul(number, scheme.tiles_along), loop.index)
            relative = [*at, fn.sub(place, span.origin)]
            _tile(work, piece, block, panel, relative, index, fn.sub(wanted, place))

    along(work.scheme.block_dim, [], 0)


def _tile(
    work: WrittenPhase,
    piece: Piece,
    block: InputBlock | None,
    panel: PackedPanel,
    at: list[Integer],
    number: Integer,
    skip: Integer,
) -> None:
    """Write a tile: `at` are its indices from the block dimension on, within the block."""
    fn, scheme = work.fn, work.scheme
    places = [x.origin for x in piece.spans]
    for d, x in enumerate(at):
        dim = scheme.block_dim + d
        places[dim] = fn.add(piece.spans[dim].origin, x)
    sums = _sums(work, piece, panel, places, number)
    if block is not None:
        ask_for_later(work, block, panel, number)
        _products(work, piece, block, panel, _TilePlace(at, places), sums)
    if work.convolver.is_direct or (scheme.is_shared and not work.is_last):
        return
    rows = _in_result(fn, scheme, piece, places)
    finish = work.convolver.finishing(panel.columns)
    given = ["%buffers", sums, skip, panel.column, *rows]
    if block is None or block.is_end == "true":
        fn.call(finish, given)
        return
    with fn.when(block.is_end):
        fn.call(finish, given)


@dataclass(frozen=True, slots=True)
class _TilePlace:
    """The indices of a tile within its block of rows, and those along all dimensions of rows."""

    within: list[Integer]
    rows: list[Integer]


def _products(
    work: WrittenPhase,
    piece: Piece,
    block: InputBlock,
    panel: PackedPanel,
    place: _TilePlace,
    sums: str,
) -> None:
    """Add up the products of a tile, of a copy of the input where it reaches beyond that."""
    fn, scheme = work.fn, work.scheme
    offset: Integer = fn.mul(panel.number, scheme.columns) if scheme.is_lanewise else 0
    for d, x in enumerate(place.within):
        step = row_step(scheme, scheme.rows[scheme.block_dim + d])
        offset = fn.add(offset, fn.mul(x, step))
    packed, steps = panel.packed, {x.kind: x.step for x in scheme.axes()}
    for axis in filter(scheme.is_clipped, range(len(scheme.problem.spatial))):
        block, left_out = _clipped(work, piece, block, place, axis)
        units = scheme.problem.spatial[axis].dilation * steps[axis]
        offset = fn.add(offset, fn.mul(left_out, units))
        nbytes = scheme.column_step(axis) * scheme.column_unit_bytes
        packed = fn.gep(packed, fn.mul(left_out, nbytes))
    given = [packed, sums, block.more, block.features, *block.taps]

    def inside() -> list[str]:
        there = fn.gep(block.input, fn.mul(offset, scheme.how.row_unit_bytes))
        tile = work.convolver.tile(panel.columns, scheme)
        fn.call(tile, [there, *given, *outer_steps(scheme)])
        return []

    if not scheme.has_border:
        inside()
        return
    reach = [_tile_reach(work, piece, block, place, i) for i in range(len(scheme.problem.spatial))]

    def beyond() -> list[str]:
        copy = _border(work, piece, block, panel, place, reach)
        border = scheme.at_border()
        tile = work.convolver.tile(panel.columns, border)
        fn.call(tile, [copy, *given, *outer_steps(border)])
        return []

    tests = []
    for axis, (start, count) in enumerate(reach):
        if not scheme.is_within(axis):
            spatial = scheme.problem.spatial[axis]
            tests.append(fn.compare("sge", start, 0))
            tests.append(fn.compare("sle", fn.add(start, count), spatial.size))
    every = tests[0]
    for test in tests[1:]:
        every = fn.op(f"and i1 {every}, {test}")
    fn.choose(every, [], inside, beyond)


def _clipped(
    work: WrittenPhase, piece: Piece, block: InputBlock, place: _TilePlace, axis: int
) -> tuple[InputBlock, Integer]:
    """The block with those taps along an axis that meet elements, and how many are left out before.

    A tile has one index along the axis, so that this is the same for all of its rows.
    """
    fn, spatial = work.fn, work.scheme.problem.spatial[axis]
    start, _ = _tile_reach(work, piece, block, place, axis)
    apart = spatial.dilation
    low = fn.div(fn.max(fn.sub(apart - 1, start), 0), apart)
    high = fn.div(fn.max(fn.sub(spatial.size + apart - 1, start), 0), apart)
    taps = fn.max(fn.sub(fn.min(high, block.taps[axis]), low), 0)
    firsts = [fn.add(x, low) if i == axis else x for i, x in enumerate(block.firsts)]
    counts = [taps if i == axis else x for i, x in enumerate(block.taps)]
    return replace(block, firsts=firsts, taps=counts), low


def _tile_reach(
    work: WrittenPhase, piece: Piece, block: InputBlock, place: _TilePlace, axis: int
) -> tuple[Integer, Integer]:
    """The first input index that a tile meets along an axis, and how many there are."""
    fn, scheme = work.fn, work.scheme
    spatial, phase = scheme.problem.spatial[axis], piece.phases[axis]
    dim = next(d for d, x in enumerate(scheme.rows) if x.axis == axis)
    start = fn.mul(place.rows[dim], spatial.stride)
    start = fn.add(fn.add(start, fn.mul(block.firsts[axis], spatial.dilation)), phase.offset)
    taps = fn.mul(fn.sub(block.taps[axis], 1), spatial.dilation)
    return start, fn.add(taps, (scheme.tile_extent(dim) - 1) * spatial.stride + 1)


def _border(
    work: WrittenPhase,
    piece: Piece,
    block: InputBlock,
    panel: PackedPanel,
    place: _TilePlace,
    reach: list[tuple[Integer, Integer]],
) -> str:
    """Copy the input of a tile to the stack; return where it lies."""
    fn, scheme = work.fn, work.scheme.at_border()
    ranges: list[Integer] = []
    for axis in scheme.axes():
        if axis.kind >= 0:
            ranges += reach[axis.kind]
        elif axis.kind == BATCH:
            dim = next(d for d, x in enumerate(scheme.rows) if x.axis == BATCH)
            ranges += [place.rows[dim], scheme.tile_extent(dim)]
        elif axis.kind == FEATURE:
            ranges += [block.feature, scheme.feature_block]
        else:
            ranges += [panel.column, panel.columns]
    fn.call(work.convolver.slab(scheme), ["%buffers", work.patch, piece.group, *ranges])
    return work.patch


def _in_result(
    fn: Function, scheme: ConvolutionScheme, piece: Piece, places: list[Integer]
) -> list[Integer]:
    """The indices in the result of a place in the rows of a phase."""
    found = []
    for row, place in zip(scheme.rows, places, strict=True):
        if row.axis == BATCH:
            found.append(place)
            continue
        step = scheme.problem.spatial[row.axis].output_step
        found.append(fn.add(piece.phases[row.axis].start, fn.mul(place, step)))
    return found


def _sums(
    work: WrittenPhase, piece: Piece, panel: PackedPanel, places: list[Integer], number: Integer
) -> str:
    """The address of the sums of a tile: in the result, on the stack, or in scratch."""
    fn, scheme = work.fn, work.scheme
    nbytes = scheme.how.unit_bytes
    if work.convolver.is_direct:
        return fn.gep(work.stack, fn.mul(_offset(fn, scheme, piece, panel, places), nbytes))
    if work.stack:
        return work.stack
    base = fn.gep(work.thread, scheme.slab_bytes + scheme.far_panel_bytes)
    if scheme.is_shared:
        share = fn.add(fn.mul(piece.share, scheme.row_units), piece.number)
        base = fn.gep("%scratch", fn.mul(share, scheme.block_sums_bytes))
    at = fn.add(fn.mul(number, scheme.column_block), panel.number)
    return fn.gep(base, fn.mul(at, scheme.tile_sums * nbytes))


def _offset(
    fn: Function, scheme: ConvolutionScheme, piece: Piece, panel: PackedPanel, places: list[Integer]
) -> Integer:
    numbers, steps = scheme.problem.numbers, strides(scheme.problem.output)
    at = panel.column
    for row, x in zip(scheme.rows, _in_result(fn, scheme, piece, places), strict=True):
        d = numbers.output_batch if row.axis == BATCH else numbers.output_spatial[row.axis]
        at = fn.add(at, fn.mul(x, steps[d]))
    return at
