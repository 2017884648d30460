"""Packing of rows tile by tile, as they lie side by side: for each step the rows of a tile.

Blocks of k are counted as in `packing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.codegen.cpu.contraction.operands import LanePosition
from lowtide.codegen.cpu.contraction.packing import Packer, first_of_unit, stored, unit_address
from lowtide.codegen.cpu.contraction.prefetching import tiles_ahead
from lowtide.codegen.cpu.contraction.tiles import EvenParts
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.value import Value
from lowtide.llvm.function import Function, Integer


def pack_tiles(pack: Packer, row_step: int, tiles: EvenParts) -> Function:
    """Write the packing of rows that do not lie along k, tile by tile; a unit is an element.

    The rows of a tile lie side by side for each step. A tile begins `row_step` units behind the one
    before for each row of that. Where several tiles fill a vector, it is read once for all of them.
    """
    fn, pack = pack.fn, pack.along(pack.side.roles.free)
    end = fn.add("%start", "%count")
    edge = tiles.longer * tiles.longest
    ask = tiles_ahead(pack.elements, pack.side, fn.mul("%first", pack.lanes))
    parts = [(fn.max("%start", edge) if edge else "%start", end, tiles.short)]
    if edge:
        parts.insert(0, ("%start", fn.min(end, edge), tiles.longest))
    with pack.inside(0, "%steps") as number:
        for first, last, height in parts:
            for part, count, start, stop in _runs_of_tiles(pack, first, last, height):
                with part.elements.scopes.loop(start, stop, count * height) as down:
                    ask(number, down.index, count * height)
                    _store_tiles(part, down.index, number, row_step, (count, height))
    return fn


def _runs_of_tiles(
    pack: Packer, first: Integer, last: Integer, height: int
) -> Iterator[tuple[Packer, int, Integer, Integer]]:
    """Yield what packs how many tiles at a time, from which row on, to which: ever fewer tiles."""
    fn = pack.fn
    ways = [] if pack.wide is None else [(pack.wide, pack.wide.width // height)]
    if pack.lanes % height == 0:
        ways.append((pack, pack.lanes // height))
    for part, count in ways:
        if count > 1:
            rows = fn.max(0, fn.sub(last, first))
            stop = fn.add(first, fn.mul(fn.div(rows, count * height), count * height))
            yield part, count, first, stop
            first = stop
    yield pack, 1, first, last


def _store_tiles(
    pack: Packer, first: Integer, number: Integer, row_step: int, size: tuple[int, int]
) -> None:
    """Store a step of some tiles of a height, whose rows are computed at once.

    The last vector of a tile reaches into the next step, which is written later, or behind it.
    """
    fn, (count, height) = pack.fn, size
    inner = LanePosition(first_of_unit(pack, number))
    for j in range(0, count * height, pack.width):
        row = pack.elements.indices.variable(first, pack.count) + j
        mask = tail_mask(pack.width, count * height - j)
        value = pack.value(LanePosition(row, pack.lane()), inner, mask)
        for start in range(0, count * height, height):
            there = _tile_place(pack, fn.add(first, start), number, row_step, height)
            part = value if count == 1 else _lanes_from(pack, value, start, height)
            stored(pack, part, there, j)


def _lanes_from(pack: Packer, value: Value, start: int, count: int) -> Value:
    """Return `count` lanes of a value from one on, filled up to whole vectors with any others."""
    size = count if pack.lanes % count == 0 else -(-count // pack.lanes) * pack.lanes
    taken = [x if x < value.lanes else -1 for x in range(start, start + size)]
    names = [pack.fn.shuffle(value.llvm_type, x, "poison", taken) for x in value.names]
    return Value(tuple(names), value.type, size)


def _tile_place(pack: Packer, first: Integer, number: Integer, row_step: int, height: int) -> str:
    """The address of a step of the tile that begins with a row."""
    fn = pack.fn
    tile = fn.mul(fn.sub(first, "%start"), row_step)
    return unit_address(pack, "%to", fn.add(tile, fn.mul(number, height)))
