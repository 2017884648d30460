"""Sorts along a dimension: short rows in a block, longer ones by tiles that are merged.

Records of keys and places are sorted, then elements are moved. Sorts are stable. What has no keys
of up to 64 bits is sorted by the comparator itself, on places, if its rows fit into a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.values import CallFrame, Element
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.networks import (
    EACH,
    SharedRecords,
    SortTiling,
    TilePlace,
    tile_place,
    write_network,
)
from lowtide.codegen.gpu.record_sorts import RecordSort, fill_tile
from lowtide.codegen.gpu.register_networks import write_key_network
from lowtide.codegen.gpu.threads import barrier, thread_in_block, thread_number
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.library.order import joined, ordered
from lowtide.codegen.library.records import Fields, records_of
from lowtide.codegen.library.sort_form import SortForm
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction, Opcode
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_THREADS = 256
"""Threads of a block that moves elements."""


def plan_gpu_sort(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a sort runs, None where its comparator has no keys and its rows are too long."""
    if instruction.opcode is not Opcode.SORT:
        return None
    form = SortForm(instruction)
    if not form.rows * form.size:
        return GpuPlan("sorts", lambda: GpuCode((), ()))
    tiling = SortTiling(form.rows, form.size)
    if tiling.pieces == 1:
        return GpuPlan("sorts", lambda: _block_code(form, tiling, target))
    if not form.keys or tiling.rows * tiling.padded >= 1 << 32:
        return None
    sort = _record_sort(form, tiling, target)
    return GpuPlan("sorts", lambda: _long_code(form, sort), sort.scratch_bytes)


def _record_sort(form: SortForm, tiling: SortTiling, target: Target) -> RecordSort:
    bits = sum([x.bits for x in form.keys])
    return RecordSort(
        form.sort,
        target,
        tiling,
        bits,
        partial(_record, form),
        "sort",
        rows_first=_rows_first(form),
    )


def _rows_first(form: SortForm) -> bool:
    """Whether elements of neighbouring rows lie side by side, and not those of a row."""
    layout = form.sort.operands[0].shape.layout
    last = layout.minor_to_major[0] if layout else len(form.dimensions) - 1
    return last != form.dimension


# -- records ---------------------------------------------------------------------------------------


def _index(form: SortForm, elements: Elements, row: Integer, place: Affine) -> Index:
    others = decomposed(elements, row, form.others)
    return (*others[: form.dimension], place, *others[form.dimension :])


def _sources(form: SortForm, bound: Bound) -> list[Array]:
    return [bound.frame.arrays[x] for x in form.sort.operands]


def _record(form: SortForm, elements: Elements, bound: Bound, at: TilePlace) -> Fields:
    """The record of an element: its key, if there is one, and its place."""
    fn = elements.function
    place = Number(fn, elements.target, "i64", 0, str(at.place))
    if not form.keys:
        return (place.cast("trunc", "i32").name,)
    index = _index(form, elements, at.row, elements.indices.variable(at.place, form.size))
    firsts = form.sort.called_computations[0].parameters[::2]
    given = {
        first: elements.read(array, index, None)
        for first, array in zip(firsts, _sources(form, bound), strict=True)
        if first.users
    }
    frame = CallFrame(elements=given)
    keys = []
    for key in form.keys:
        value = elements.all_at(key.expression, (), frame).values[0]
        total, down = key.total_order, key.descending
        keys.append(ordered(fn, elements.target, value, total_order=total, descending=down))
    if form.records.packed:
        return (((joined(keys) << 32) | place).name,)
    return joined(keys).name, place.cast("trunc", "i32").name


def _before(
    form: SortForm, elements: Elements, bound: Bound, row: Integer, a: Fields, b: Fields
) -> str:
    """Whether one place of a row comes before another.

    The comparator is asked whether the later one goes first, as a stable merge asks. Places behind
    the end come last.
    """
    fn = elements.function
    one, other = (fn.op(f"zext i32 {x[0]} to i64") for x in (a, b))
    later = fn.min(fn.max(one, other), form.size - 1)
    earlier = fn.min(fn.min(one, other), form.size - 1)
    swapped = _compared(form, elements, bound, row, [later, earlier])
    is_first = fn.compare("slt", one, other)
    found = fn.op(f"xor i1 {swapped}, {is_first}")
    found = fn.op(f"or i1 {found}, {fn.compare('sge', other, form.size)}")
    return fn.op(f"and i1 {found}, {fn.compare('slt', one, form.size)}")


def _compared(
    form: SortForm, elements: Elements, bound: Bound, row: Integer, places: list[Integer]
) -> str:
    comparator, sources = form.sort.called_computations[0], _sources(form, bound)
    indices = [_index(form, elements, row, elements.indices.variable(x, form.size)) for x in places]
    given: dict[Instruction, Element] = {}
    for number, parameter in enumerate(comparator.parameters):
        if parameter.users or parameter is comparator.root:
            read = elements.read(sources[number // 2], indices[number % 2], None)
            given[parameter] = read
    return elements.all_at(comparator.root, (), CallFrame(elements=given)).values[0].name


# -- rows within blocks ----------------------------------------------------------------------------


def _block_code(form: SortForm, tiling: SortTiling, target: Target) -> GpuCode:
    """One launch: a block has sorted its rows before it writes any of their elements."""
    sort = form.sort
    fn = kernel_function("sort", sort, tiling.threads)
    elements = thread_elements(fn, target, 0)
    bound = bind(fn, sort, buffer_names(sort))
    records = records_of(sum([x.bits for x in form.keys]), tiling.tile)
    shared = SharedRecords(records, tiling.tile)
    rows_first = _rows_first(form)
    fill_tile(elements, bound, shared, tiling, partial(_record, form), rows_first=rows_first)

    if form.keys:
        write_key_network(fn, shared, tiling)
    else:

        def before(number: Integer, a: Fields, b: Fields) -> str:
            return _before(form, elements, bound, tile_place(fn, tiling, number).row, a, b)

        write_network(fn, elements.scopes, shared, tiling, before)
    _move_within(form, elements, bound, shared, tiling, rows_first=rows_first)
    launch = GridLaunch("sort", tiling.blocks, tiling.threads)
    texts = [*elements.globals.values(), *shared.definitions]
    return GpuCode((fn,), (launch,), "\n".join(texts))


def _move_within(
    form: SortForm,
    elements: Elements,
    bound: Bound,
    shared: SharedRecords,
    tiling: SortTiling,
    *,
    rows_first: bool,
) -> None:
    """Load what each thread stores, wait for all of the block, then store it."""
    fn, sources = elements.function, _sources(form, bound)
    thread = thread_in_block(fn)
    found: list[tuple[TilePlace, list[str]]] = []
    for step in range(EACH):
        number = fn.add(thread, step * tiling.threads)
        if rows_first:
            along = fn.mul(fn.rem(number, tiling.together), tiling.length)
            number = fn.add(along, fn.div(number, tiling.together))
        at = tile_place(fn, tiling, number)
        place = shared.records.place(fn, shared.load(fn, at.number))
        place = str(fn.min(place, form.size - 1))
        values = [_loaded(form, elements, x, at.row, place) for x in sources]
        found.append((at, values))
    barrier(fn)
    for at, values in found:
        with elements.scopes.when(at.is_there):
            for array, value in zip(bound.results, values, strict=True):
                to, bits, align = _raw(form, elements, array, at.row, at.place)
                fn.store(bits, value, to, align)


def _raw(
    form: SortForm, elements: Elements, array: Array, row: Integer, place: Integer
) -> tuple[str, str, int]:
    """The address of an element of a row, its type as bits, and its alignment."""
    type_ = array.shape.element_type
    bits = f"i{8 * type_.nbytes}"
    index = _index(form, elements, row, elements.indices.variable(place, form.size))
    at = elements.indices.scalar(offset(array.shape, index))
    return elements.function.gep(array.pointer, at, bits), bits, memory.element_bytes(type_)


def _loaded(form: SortForm, elements: Elements, array: Array, row: Integer, place: Integer) -> str:
    pointer, bits, align = _raw(form, elements, array, row, place)
    return elements.function.load(bits, pointer, align)


# -- longer rows -----------------------------------------------------------------------------------


def _long_code(form: SortForm, sort: RecordSort) -> GpuCode:
    """Sort the places of records, then move elements.

    Where results lie over operands words of elements go by way of the array that is free then, one
    in each launch, which puts the word of the launch before in its place.
    """
    functions, launches, texts = sort.write()
    count = form.rows * form.size
    for step, words in enumerate(pairwise([None, *_words(form, sort.place_bytes), None])):
        fn = kernel_function(f"move{step}", form.sort, _THREADS)
        elements = thread_elements(fn, sort.target, 0)
        number = thread_number(fn, _THREADS, count)
        with elements.scopes.when(fn.compare("slt", number, count)):
            _move(form, sort, elements, number, words)
        functions.append(fn)
        launches.append(GridLaunch(fn.name, -(-count // _THREADS), _THREADS))
    return GpuCode(tuple(functions), tuple(launches), "\n".join(dict.fromkeys(texts)))


@dataclass(frozen=True, slots=True)
class _Word:
    """Bytes of each element of an operand, from one of them on."""

    operand: int
    first: int
    nbytes: int


def _words(form: SortForm, most: int) -> Iterator[_Word]:
    """The words of up to so many bytes of the elements of all operands."""
    for number, operand in enumerate(form.sort.operands):
        nbytes = operand.shape.element_type.nbytes
        for first in range(0, nbytes, most):
            yield _Word(number, first, min(most, nbytes))


def _move(
    form: SortForm,
    sort: RecordSort,
    elements: Elements,
    number: Integer,
    words: tuple[_Word | None, _Word | None],
) -> None:
    """Put the first word of an element of the results in its place, and stage the second one.

    Where there is no first one elements move whose results lie apart from their operands.
    """
    fn, bound = elements.function, bind(elements.function, form.sort, buffer_names(form.sort))
    row, place = fn.div(number, form.size), fn.rem(number, form.size)
    from_ = sort.sorted_place(fn, fn.add(fn.mul(row, sort.tiling.padded), place))
    from_ = str(fn.min(from_, form.size - 1))
    staged = fn.gep(fn.gep("%scratch", sort.free_at), number, sort.place_type)
    pairs = list(zip(_sources(form, bound), bound.results, strict=True))
    if words[0] is None:
        for array, result in pairs:
            with elements.scopes.when(_compared_places(fn, "ne", array, result)):
                to, bits, align = _raw(form, elements, result, row, place)
                fn.store(bits, _loaded(form, elements, array, row, from_), to, align)
    for word, is_first in zip(words, (True, False), strict=True):
        if word is not None:
            array, result = pairs[word.operand]
            whole, at = (result, place) if is_first else (array, from_)
            with elements.scopes.when(_compared_places(fn, "eq", array, result)):
                there = fn.gep(_raw(form, elements, whole, row, at)[0], word.first)
                source, target = (staged, there) if is_first else (there, staged)
                bits = f"i{8 * word.nbytes}"
                fn.store(bits, fn.load(bits, source, word.nbytes), target, word.nbytes)


def _compared_places(fn: Function, relation: str, a: Array, b: Array) -> str:
    return fn.op(f"icmp {relation} ptr {a.pointer}, {b.pointer}")
