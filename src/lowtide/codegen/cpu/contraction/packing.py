"""Packing: blocks of an operand copied to scratch in the order in which they are multiplied.

Every function here packs the units of one block of k, from the vector of units `%first` on, for
`%steps` steps; where k ends within a unit or a vector, zeros follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from lowtide.codegen.cpu.contraction.arithmetic import Arithmetic
from lowtide.codegen.cpu.contraction.operands import LanePosition, OperandReader, OperandSide
from lowtide.codegen.cpu.contraction.prefetching import ahead_of, lines_ahead, rows_ahead
from lowtide.codegen.cpu.contraction.transposing import BLOCK, transposed
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
    """What a packing function is written with.

    `lanes` are the units of a vector in which blocks of k are counted; elements are computed
    `width` at a time. `wide` does the same with several vectors side by side, where each is a long
    chain of instructions, and `whole` with those of 16 bytes, where they are moved as they lie.
    """

    fn: Function
    target: Target
    how: Arithmetic
    side: OperandSide
    elements: Elements
    reader: OperandReader
    batch: Affine
    k: int
    count: int
    lanes: int
    wide: Packer | None = None
    whole: Packer | None = None

    @property
    def width(self) -> int:
        """Elements that are computed at a time."""
        return self.elements.lanes

    def lane(self) -> Affine:
        """Return the number of the lane."""
        return self.elements.indices.variable(0, self.width, is_lane=True)

    def along(self, dimensions: tuple[int, ...]) -> Packer:
        """Return what packs vectors along dimensions: several side by side along one alone.

        The places of others change within vectors that begin anywhere.
        """
        is_one = sum([size != 1 for size in self.side.sizes(dimensions)]) <= 1
        return self if is_one else replace(self, wide=None)

    @contextmanager
    def inside(self, start: Integer, stop: Integer) -> Iterator[Integer]:
        """Write a loop, in which `wide` may have loops of its own; yield its index."""
        with self.elements.scopes.loop(start, stop) as loop:
            if self.wide is None:
                yield loop.index
                return
            with self.wide.elements.scopes.inside():
                yield loop.index

    def vectors(self, first: Integer, stop: Integer) -> Iterator[tuple[Packer, Integer]]:
        """Write loops over vectors: several at a time, then the others one by one.

        Each comes with what computes its elements, and the number of the first vector.
        """
        edge = first
        if self.wide is not None:
            step = self.wide.width // self.width
            count = self.fn.div(self.fn.sub(stop, first), step)
            edge = self.fn.add(first, self.fn.mul(count, step))
            with self.wide.elements.scopes.loop(first, edge, step) as loop:
                yield self.wide, loop.index
        with self.elements.scopes.loop(edge, stop) as loop:
            yield self, loop.index

    def along_k(self, first: Integer, stop: Integer) -> Iterator[tuple[Packer, Integer, int]]:
        """Write loops over vectors of units along k, as `vectors` does; each has their number, too.

        Where masks are slow, those that lie within k come first, of which there are fewer.
        """
        whole, ragged = divmod(self.k, self.how.group * self.lanes)
        takes_masks = memory.takes_masks(self.target, self.side.type)
        if takes_masks or not whole or not ragged:
            for some, index in self.vectors(first, stop):
                yield some, index, whole + bool(ragged)
            return
        for some, index in self.vectors(first, self.fn.min(stop, whole)):
            yield some, index, whole
        with self.elements.scopes.loop(self.fn.max(first, whole), stop) as loop:
            yield self, loop.index, whole + 1

    def below(self, index: Affine, end: int) -> Mask | None:
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
    most: int = 0,
) -> Packer:
    """Begin a packing function for an operand with `count` rows or columns in all.

    At most `most` elements are computed at a time, if that is not 0.
    """
    fn = Function(name, PARAMETERS, linkage="internal")

    def of_width(width: int) -> Packer:
        elements = vector_elements(fn, target, width)
        index = elements.indices.variable("%batch", batch)
        reader = side.reader(elements, how)
        return Packer(fn, target, how, side, elements, reader, index, k, count, lanes)

    found, abreast = of_width(lanes), side.vectors_abreast(target)
    while most and abreast * lanes > most and abreast > 1:
        abreast //= 2
    if how.group > 1 and how.element.is_integer and side.is_plain(how):
        return replace(found, whole=of_width(BLOCK // memory.element_bytes(how.element)))
    if abreast == 1 or how.group > 1 or how.planes > 1:
        return found
    wide = of_width(abreast * lanes)
    wide.elements.globals = found.elements.globals
    return replace(found, wide=wide)


def stored(packer: Packer, value: Value, to: str, unit: Integer) -> None:
    """Store elements as units from the unit number `unit` on; elements are as long as units."""
    memory.store(packer.fn, packer.target, value, unit_address(packer, to, unit))


def unit_address(packer: Packer, to: str, unit: Integer) -> str:
    """Return the address of a unit."""
    return packer.fn.gep(to, packer.fn.mul(unit, packer.how.unit_bytes))


# -- [row][k] ------------------------------------------------------------------------------------


def pack_rows(pack: Packer, row_step: int) -> Function:
    """Write the packing of rows one by one, `row_step` units apart, each along k."""
    fn, pack = pack.fn, pack.along(pack.side.roles.inner)
    end = fn.add("%start", "%count")
    last = fn.add("%first", fn.div(fn.add("%steps", pack.lanes - 1), pack.lanes))
    ask = rows_ahead(pack.elements, pack.side)
    with pack.inside("%start", end) as row:
        to = unit_address(pack, "%to", fn.mul(fn.sub(row, "%start"), row_step))
        for part, vector, count in pack.along_k("%first", last):
            ask(row, fn.mul(vector, pack.how.group * pack.lanes))
            there = unit_address(pack, to, fn.mul(fn.sub(vector, "%first"), pack.lanes))
            _store_along(part, row, vector, count, there)
    return fn


def _store_along(pack: Packer, row: Integer, vector: Integer, count: int, to: str) -> None:
    """Store the units of a row or column from a vector of units of k on, of so many."""
    how, variable = pack.how, pack.elements.indices.variable
    if pack.whole is not None and count * how.group * pack.lanes <= pack.k:
        _move_along(pack.whole, row, vector, count, to)
        return
    free = LanePosition(variable(row, pack.count))
    abreast = pack.width // pack.lanes
    chunk = variable(vector, max(1, count - abreast + 1))
    for part in range(how.group):
        start = (chunk * how.group + part) * pack.lanes
        inner = LanePosition(start, pack.lane(), is_aligned=abreast == 1)
        value = pack.value(free, inner, pack.below(inner.index, pack.k))
        size = memory.element_bytes(how.element) * how.planes
        memory.store(pack.fn, pack.target, value, pack.fn.gep(to, part * pack.lanes * size))


def _move_along(pack: Packer, row: Integer, vector: Integer, count: int, to: str) -> None:
    """Move a vector of units of a row or column, one of `count` that lie within k."""
    with pack.elements.scopes.inside():
        for place in range(0, pack.lanes * pack.how.group, pack.width):
            value = _moved(pack, row, vector, count, place)
            there = pack.fn.gep(to, place * memory.element_bytes(pack.how.element))
            memory.store(pack.fn, pack.target, value, there)


def _moved(pack: Packer, row: Integer, vector: Integer, count: int, place: int) -> Value:
    """16 bytes of a row or column: those from a place on of one of `count` vectors of units."""
    variable = pack.elements.indices.variable
    start = variable(vector, count) * (pack.lanes * pack.how.group) + place
    inner = LanePosition(start, pack.lane(), is_aligned=True)
    return pack.value(LanePosition(variable(row, pack.count)), inner, None)


# -- [k][column] --------------------------------------------------------------------------


def pack_panel(pack: Packer, columns: int, step: int) -> Function:
    """Write the packing of `columns` columns from `%start` on, a multiple of a vector's lanes.

    Steps lie `step` units apart. A last vector that is not full is filled up with zeros.
    """
    fn, pack = pack.fn, pack.along(pack.side.roles.free)
    first = fn.mul("%first", pack.lanes * pack.how.group)
    count = fn.mul("%steps", pack.how.group)
    ask = ahead_of(pack.elements, pack.side, "%start", first, columns, count)
    stop: Integer = "%steps"
    if pack.how.is_tiled:
        vectors = fn.div(fn.add("%steps", pack.lanes - 1), pack.lanes)
        stop = fn.mul(vectors, pack.lanes)
    with pack.inside(0, stop) as number:
        for part in range(pack.how.group):
            ask(fn.add(fn.mul(number, pack.how.group), part))
        there = unit_address(pack, "%to", fn.mul(number, step))
        for some, j in _parts_of_panel(pack, columns):
            start = some.elements.indices.variable("%start", pack.count)
            free = LanePosition(start + j, some.lane(), is_aligned=some is pack)
            mask = tail_mask(some.width, columns - j)
            _store_units(some, free, first_of_unit(some, number), mask, there, j)
    return fn


def _parts_of_panel(pack: Packer, columns: int) -> Iterator[tuple[Packer, int]]:
    """Yield what computes some columns of a panel, and the first of them."""
    first = 0
    for some in (pack.wide, pack):
        while some is not None and first < columns:
            if some is not pack and columns - first < some.width:
                break
            yield some, first
            first += some.width


def first_of_unit(pack: Packer, number: Integer) -> Affine:
    """Return the first element along k of a unit, by its number in the block."""
    group, count = pack.how.group, max(1, -(-pack.k // pack.how.group))
    if pack.how.is_tiled:
        count = -(-count // pack.lanes) * pack.lanes
    variable = pack.elements.indices.variable
    first = variable("%first", -(-count // pack.lanes))
    k = (first * pack.lanes + variable(number, count)) * group
    return k.within(0, (count - 1) * group)


def _store_units(
    pack: Packer, free: LanePosition, k: Affine, mask: Mask | None, to: str, unit: Integer
) -> None:
    """Store a vector of units of neighbouring rows or columns."""
    how, elements = pack.how, pack.elements
    values = []
    for part in range(how.group):
        inner = k + part
        inside = pack.below(inner, pack.k)
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

    A square of units is read column by column into a buffer on the stack, unless it is moved as it
    lies, and transposed in registers. Columns beyond the last one repeat it.
    """
    fn, pack = pack.fn, pack.along(pack.side.roles.inner)
    lanes, size = pack.lanes, pack.how.unit_bytes
    most = pack.width if pack.wide is None else pack.wide.width
    square = fn.stack("i8", lanes * most * size)
    last = fn.add("%first", fn.div(fn.add("%steps", lanes - 1), lanes))
    ask = lines_ahead(pack.elements, pack.side)
    for some, vector, count in pack.along_k("%first", last):
        at = fn.mul(fn.mul(fn.sub(vector, "%first"), lanes), step)
        with some.elements.scopes.loop(0, columns, lanes) as across:
            start = fn.add("%start", across.index)
            there = unit_address(pack, "%to", fn.add(at, across.index))
            if some.whole is not None and count * pack.how.group * lanes <= pack.k:
                _move_square(some.whole, start, vector, count, ask, there, step)
                continue
            with some.elements.scopes.loop(0, lanes) as inside:
                column = fn.min(fn.add(start, inside.index), pack.count - 1)
                ask(column, fn.mul(vector, pack.how.group * lanes))
                row = fn.gep(square, fn.mul(inside.index, some.width * size))
                _store_along(some, column, vector, count, row)
            for first in range(0, some.width, lanes):
                part = fn.gep(square, first * size)
                to = unit_address(pack, there, first * step)
                _store_square(pack, part, to, step, some.width)
    return fn


def _move_square(
    pack: Packer,
    start: Integer,
    vector: Integer,
    count: int,
    ask: Callable[[Integer, Integer], None],
    to: str,
    step: int,
) -> None:
    """Move a vector of units, of `count` that lie within k, of some columns: transposed.

    `ask` asks for what comes later.
    """
    fn, how, lanes = pack.fn, pack.how, pack.lanes
    side = BLOCK // how.unit_bytes
    columns = [fn.min(fn.add(start, i), pack.count - 1) for i in range(lanes)]
    with pack.elements.scopes.inside():
        for column in columns:
            ask(column, fn.mul(vector, how.group * lanes))
        for first in range(0, lanes, side):
            found = [_moved(pack, x, vector, count, first * how.group) for x in columns]
            pieces = [_as_units(pack, x) for x in found]
            for i, row in enumerate(transposed(fn, how.unit, how.unit_bytes, pieces), first):
                there = unit_address(pack, to, i * step)
                fn.store(f"<{lanes} x {how.unit}>", row, there, how.unit_bytes)


def _as_units(pack: Packer, value: Value) -> str:
    """The units that elements make."""
    fn, how = pack.fn, pack.how
    type_, bits = memory_type(value.type), as_bits(fn, pack.target, value)
    return fn.op(
        f"bitcast <{pack.width} x {type_}> {bits} to <{pack.width // how.group} x {how.unit}>"
    )


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
            mask = pack.below(free.index, pack.count)
            with elements.scopes.loop(0, lanes) as inside:
                k = (chunk * lanes + elements.indices.variable(inside.index, lanes)) * how.group
                _store_units(pack, free, k, mask, square, fn.mul(inside.index, lanes))
            there = unit_address(pack, to, fn.mul(down.index, row_step))
            _store_square(pack, square, there, row_step, lanes)
    return fn


def _store_square(pack: Packer, square: str, to: str, step: int, between: int) -> None:
    """Store a square of units transposed, whose rows have `between` units between them."""
    fn, how, lanes = pack.fn, pack.how, pack.lanes
    size = how.unit_bytes
    if how.planes == 2:
        _store_pairs(pack, square, to, step)
        return
    side = BLOCK // size
    element = f"i{8 * size}"
    with fn.loop(0, lanes, side) as loop:
        start = fn.gep(square, fn.mul(loop.index, size))
        pieces = [
            fn.load(f"<{side} x {element}>", fn.gep(start, i * between * size), size)
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
