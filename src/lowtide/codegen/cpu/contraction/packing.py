"""Packing: blocks of an operand copied to scratch in the order in which they are multiplied.

Every function here packs the units of one block of k, from the vector of units `%first` on, for
`%steps` steps; where k ends within a unit or a vector, zeros follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic
from lowtide.codegen.cpu.contraction.operands import LanePosition, OperandReader, OperandSide
from lowtide.codegen.cpu.contraction.prefetching import ahead_of, lines_ahead, tiles_ahead
from lowtide.codegen.cpu.contraction.tiles import EvenParts
from lowtide.codegen.cpu.contraction.transposing import transposed
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import tail_mask
from lowtide.codegen.elements.parts import within
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.formats import encoded
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value, memory_type
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

PARAMETERS = parameters(
    buffers="ptr", to="ptr", batch="i64", start="i64", count="i64", first="i64", steps="i64"
)
"""The parameters of a packing function: `%count` rows or columns from `%start` on."""


@dataclass(eq=False, slots=True)
class Packer:
    """What a packing function is written with."""

    fn: Function
    target: Target
    how: Arithmetic
    side: OperandSide
    elements: Elements
    reader: OperandReader
    batch: Affine
    k: int
    count: int

    @property
    def lanes(self) -> int:
        """Units in a vector."""
        return self.elements.lanes

    def lane(self) -> Affine:
        """Return the number of the lane."""
        return self.elements.indices.variable(0, self.lanes, is_lane=True)

    def inside(self, index: Affine, end: int) -> Mask | None:
        """Return the mask of indices below an end, None where all of them are."""
        found = within(self.elements, index, 0, end)
        if found is False:
            return Mask("false", 0, 0)
        assert not isinstance(found, bool)
        return found

    def value(self, free: LanePosition, inner: LanePosition, mask: Mask | None) -> Value:
        """Return a vector of elements, 0 outside of a mask."""
        elements = self.elements
        value = self.reader.at(self.batch, free, inner, mask)
        is_loaded = bool(value.lanes) and self.side.is_plain(self.how)
        if not value.lanes:
            value = elements.vectors.splat(value)
        return value if mask is None or is_loaded else or_zero(elements, value, mask)


def packer(
    name: str,
    target: Target,
    how: Arithmetic,
    lanes: int,
    side: OperandSide,
    batch: int,
    count: int,
    k: int,
) -> Packer:
    """Begin a packing function for an operand with `count` rows or columns in all."""
    fn = Function(name, PARAMETERS, linkage="internal")
    elements = vector_elements(fn, target, lanes)
    reader = side.reader(elements, how)
    index = elements.indices.variable("%batch", batch)
    return Packer(fn, target, how, side, elements, reader, index, k, count)


def stored(packer: Packer, value: Value, to: str, unit: Integer) -> None:
    """Store elements as units from the unit number `unit` on; elements are as long as units."""
    memory.store(packer.fn, packer.target, value, unit_address(packer, to, unit))


def unit_address(packer: Packer, to: str, unit: Integer) -> str:
    """Return the address of a unit."""
    return packer.fn.gep(to, packer.fn.mul(unit, packer.how.unit_bytes))


# -- [row][k] ------------------------------------------------------------------------------------


def pack_rows(pack: Packer, row_step: int) -> Function:
    """Write the packing of rows one by one, `row_step` units apart, each along k."""
    fn, elements, how = pack.fn, pack.elements, pack.how
    width = how.group * pack.lanes
    end = fn.add("%start", "%count")
    vectors = -(-pack.k // width)
    last = fn.add("%first", fn.div(fn.add("%steps", pack.lanes - 1), pack.lanes))
    with elements.scopes.loop("%start", end) as row_loop:
        row = LanePosition(elements.indices.variable(row_loop.index, pack.count))
        to = unit_address(pack, "%to", fn.mul(fn.sub(row_loop.index, "%start"), row_step))
        with elements.scopes.loop("%first", last) as loop:
            chunk = elements.indices.variable(loop.index, vectors)
            there = unit_address(pack, to, fn.mul(fn.sub(loop.index, "%first"), pack.lanes))
            for part in range(how.group):
                start = chunk * width + part * pack.lanes
                inner = LanePosition(start, pack.lane(), is_aligned=True)
                value = pack.value(row, inner, pack.inside(inner.index, pack.k))
                size = memory.element_bytes(how.element) * how.planes
                memory.store(fn, pack.target, value, fn.gep(there, part * pack.lanes * size))
    return fn


# -- [k][column] --------------------------------------------------------------------------


def pack_panel(pack: Packer, columns: int, step: int) -> Function:
    """Write the packing of `columns` columns from `%start` on, a multiple of a vector's lanes.

    Steps lie `step` units apart. A last vector that is not full is filled up with zeros.
    """
    masks = [tail_mask(pack.lanes, columns - j) for j in range(0, columns, pack.lanes)]
    fn, elements = pack.fn, pack.elements
    start = elements.indices.variable("%start", pack.count)
    first = fn.mul("%first", pack.lanes * pack.how.group)
    ask = ahead_of(elements, pack.side, "%start", first, columns)
    with _steps(pack) as (k, number):
        for part in range(pack.how.group):
            ask(fn.add(fn.mul(number, pack.how.group), part))
        there = unit_address(pack, "%to", fn.mul(number, step))
        for j, mask in enumerate(masks):
            free = LanePosition(start + j * pack.lanes, pack.lane(), is_aligned=True)
            _store_units(pack, free, k, mask, there, j * pack.lanes)
    return fn


@contextmanager
def _steps(pack: Packer) -> Iterator[tuple[Affine, Integer]]:
    """Write the loop over the steps of a block: the first element of a unit, and the step."""
    elements, group = pack.elements, pack.how.group
    count = max(1, -(-pack.k // group))
    stop: Integer = "%steps"
    if pack.how.is_tiled:
        count = -(-count // pack.lanes) * pack.lanes
        vectors = pack.fn.div(pack.fn.add("%steps", pack.lanes - 1), pack.lanes)
        stop = pack.fn.mul(vectors, pack.lanes)
    with elements.scopes.loop(0, stop) as loop:
        first = elements.indices.variable("%first", -(-count // pack.lanes))
        number = elements.indices.variable(loop.index, count)
        k = (first * pack.lanes + number) * group
        yield k.within(0, (count - 1) * group), loop.index


def _store_units(
    pack: Packer, free: LanePosition, k: Affine, mask: Mask | None, to: str, unit: Integer
) -> None:
    """Store a vector of units of neighbouring rows or columns."""
    how, elements = pack.how, pack.elements
    values = []
    for part in range(how.group):
        inner = k + part
        inside = pack.inside(inner, pack.k)
        values.append(pack.value(free, LanePosition(inner), elements.vectors.both(mask, inside)))
    if how.group == 1:
        stored(pack, values[0], to, unit)
        return
    there = unit_address(pack, to, unit)
    pack.fn.store(*interleaved(pack.fn, pack.target, pack.lanes, values), there, 2)


def interleaved(fn: Function, target: Target, lanes: int, values: list[Value]) -> tuple[str, str]:
    """Return a type and a vector in memory with the elements of two or four vectors in turn."""
    count = len(values)
    bits = f"i{32 // count}"
    parts = [as_bits(fn, target, x) for x in values]
    length = lanes
    while len(parts) > 2:
        type_ = f"<{length} x {bits}>"
        parts = [
            fn.shuffle(type_, a, b, range(2 * length))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        length *= 2
    order = [lane + lanes * part for lane in range(lanes) for part in range(count)]
    low, high = parts
    return f"<{count * lanes} x {bits}>", fn.shuffle(f"<{length} x {bits}>", low, high, order)


def as_bits(fn: Function, target: Target, value: Value) -> str:
    """Return the elements of a type of 8 or 16 bits as they stand in memory."""
    (number,) = memory.numbers(fn, target, value)
    return encoded(value.type, number).name if value.type.is_floating else number.name


def or_zero(elements: Elements, value: Value, mask: Mask) -> Value:
    """Return a vector with zeros outside of a mask."""
    fn, type_ = elements.function, value.llvm_type
    kind = f"<{value.lanes} x i1>"
    where = elements.vectors.mask_lanes(mask, value.lanes)
    names = [
        fn.op(f"select {kind} {where}, {type_} {x}, {type_} zeroinitializer") for x in value.names
    ]
    return Value(tuple(names), value.type, value.lanes)


# -- columns that lie along k --------------------------------------------------------------------


def pack_transposed(pack: Packer, columns: int, step: int) -> Function:
    """Write the packing of `columns` columns that lie along k; steps lie `step` units apart.

    A square of units is read column by column into a buffer on the stack, and transposed in
    registers. Columns beyond the last one repeat it.
    """
    fn, elements, how, lanes = pack.fn, pack.elements, pack.how, pack.lanes
    square = fn.stack("i8", lanes * lanes * how.unit_bytes)
    width = how.group * lanes
    vectors = -(-pack.k // width)
    last = fn.add("%first", fn.div(fn.add("%steps", lanes - 1), lanes))
    ask = lines_ahead(elements, pack.side)
    with elements.scopes.loop("%first", last) as loop:
        chunk = elements.indices.variable(loop.index, vectors)
        at = fn.mul(fn.mul(fn.sub(loop.index, "%first"), lanes), step)
        with elements.scopes.loop(0, columns, lanes) as across:
            start = fn.add("%start", across.index)
            with elements.scopes.loop(0, lanes) as inside:
                number = fn.min(fn.add(start, inside.index), pack.count - 1)
                column = LanePosition(elements.indices.variable(number, pack.count))
                ask(number, fn.mul(loop.index, width))
                row = fn.gep(square, fn.mul(inside.index, lanes * how.unit_bytes))
                for part in range(how.group):
                    inner = LanePosition(chunk * width + part * lanes, pack.lane(), is_aligned=True)
                    value = pack.value(column, inner, pack.inside(inner.index, pack.k))
                    size = memory.element_bytes(how.element) * how.planes
                    memory.store(fn, pack.target, value, fn.gep(row, part * lanes * size))
            there = unit_address(pack, "%to", fn.add(at, across.index))
            _store_square(pack, square, there, step)
    return fn


def pack_rows_across(pack: Packer, row_step: int) -> Function:
    """Write the packing of rows one by one, `row_step` units apart, that do not lie along k.

    A square of units is made of vectors across the rows, and transposed. It may fill up to a vector
    of rows more than there are.
    """
    fn, elements, how, lanes = pack.fn, pack.elements, pack.how, pack.lanes
    square = fn.stack("i8", lanes * lanes * how.unit_bytes)
    units = -(-pack.k // how.group)
    last = fn.add("%first", fn.div(fn.add("%steps", lanes - 1), lanes))
    start = elements.indices.variable("%start", pack.count)
    with elements.scopes.loop("%first", last) as loop:
        chunk = elements.indices.variable(loop.index, -(-units // lanes))
        to = unit_address(pack, "%to", fn.mul(fn.sub(loop.index, "%first"), lanes))
        with elements.scopes.loop(0, "%count", lanes) as down:
            free = LanePosition(
                start + elements.indices.variable(down.index, pack.count), pack.lane()
            )
            mask = pack.inside(free.index, pack.count)
            with elements.scopes.loop(0, lanes) as inside:
                k = (chunk * lanes + elements.indices.variable(inside.index, lanes)) * how.group
                _store_units(pack, free, k, mask, square, fn.mul(inside.index, lanes))
            _store_square(
                pack, square, unit_address(pack, to, fn.mul(down.index, row_step)), row_step
            )
    return fn


def pack_tiles(pack: Packer, row_step: int, tiles: EvenParts) -> Function:
    """Write the packing of rows that do not lie along k, tile by tile; a unit is an element.

    The rows of a tile lie side by side for each step. A tile begins `row_step` units behind the one
    before for each row of that. Where several tiles fill a vector, it is read once for all of them.
    """
    fn, lanes = pack.fn, pack.lanes
    end = fn.add("%start", "%count")
    edge = tiles.longer * tiles.longest
    ask = tiles_ahead(pack.elements, pack.side, fn.mul("%first", lanes))
    parts = [(fn.max("%start", edge) if edge else "%start", end, tiles.short)]
    if edge:
        parts.insert(0, ("%start", fn.min(end, edge), tiles.longest))
    with _steps(pack) as (k, number):
        for first, last, height in parts:
            alone = first
            if height < lanes and lanes % height == 0:
                rows = fn.max(0, fn.sub(last, first))
                alone = fn.add(first, fn.mul(fn.div(rows, lanes), lanes))
                with pack.elements.scopes.loop(first, alone, lanes) as down:
                    ask(number, down.index, lanes)
                    _store_tiles(pack, down.index, k, number, row_step, height)
            with pack.elements.scopes.loop(alone, last, height) as down:
                ask(number, down.index, height)
                _store_tile(pack, down.index, k, number, row_step, height)
    return fn


def _store_tiles(
    pack: Packer, first: Integer, k: Affine, number: Integer, row_step: int, height: int
) -> None:
    """Store a step of a vector of rows, which several tiles of a height share."""
    fn = pack.fn
    row = pack.elements.indices.variable(first, pack.count)
    value = pack.value(LanePosition(row, pack.lane()), LanePosition(k), None)
    for start in range(0, pack.lanes, height):
        lanes = range(start, start + height)
        names = [fn.shuffle(value.llvm_type, x, "poison", lanes) for x in value.names]
        part = Value(tuple(names), value.type, height)
        stored(pack, part, _tile_place(pack, fn.add(first, start), number, row_step, height), 0)


def _store_tile(
    pack: Packer, first: Integer, k: Affine, number: Integer, row_step: int, height: int
) -> None:
    """Store a step of a tile.

    Its last vector reaches into the next step, which is written later, or behind the tile.
    """
    row = pack.elements.indices.variable(first, pack.count)
    to = _tile_place(pack, first, number, row_step, height)
    for j in range(0, height, pack.lanes):
        mask = tail_mask(pack.lanes, height - j)
        value = pack.value(LanePosition(row + j, pack.lane()), LanePosition(k), mask)
        stored(pack, value, to, j)


def _tile_place(pack: Packer, first: Integer, number: Integer, row_step: int, height: int) -> str:
    """The address of a step of the tile that begins with a row."""
    fn = pack.fn
    tile = fn.mul(fn.sub(first, "%start"), row_step)
    return unit_address(pack, "%to", fn.add(tile, fn.mul(number, height)))


def _store_square(pack: Packer, square: str, to: str, step: int) -> None:
    fn, how, lanes = pack.fn, pack.how, pack.lanes
    size = how.unit_bytes
    if how.planes == 2:
        _store_pairs(pack, square, to, step)
        return
    side = 16 // size
    element = f"i{8 * size}"
    with fn.loop(0, lanes, side) as loop:
        start = fn.gep(square, fn.mul(loop.index, size))
        pieces = [
            fn.load(f"<{side} x {element}>", fn.gep(start, i * lanes * size), size)
            for i in range(lanes)
        ]
        there = fn.gep(to, fn.mul(loop.index, step * size))
        for i, row in enumerate(transposed(fn, element, size, pieces)):
            fn.store(f"<{lanes} x {element}>", row, fn.gep(there, i * step * size), size)


def _store_pairs(pack: Packer, square: str, to: str, step: int) -> None:
    """Transpose complex numbers, which are too wide for one register type, one by one."""
    fn, nbytes, lanes = pack.fn, pack.how.unit_bytes, pack.lanes
    part = memory_type(pack.how.element)
    pair = f"<2 x {part}>"
    for i in range(lanes):
        for j in range(lanes):
            value = fn.load(pair, fn.gep(square, (j * lanes + i) * nbytes), nbytes // 2)
            fn.store(pair, value, fn.gep(to, (i * step + j) * nbytes), nbytes // 2)
