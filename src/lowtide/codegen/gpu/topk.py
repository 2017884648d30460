"""Top-k: blocks keep the first k records of each tile, in rounds, until one tile of a row is left.

Where k is more than half of a tile all of a row is sorted.
"""

from __future__ import annotations

from functools import partial

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elementwise.memory import element_bytes
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, buffer_names, kernel_function
from lowtide.codegen.gpu.networks import SharedRecords, SortTiling, TilePlace, tile_places
from lowtide.codegen.gpu.record_sorts import RecordSort, fill_tile
from lowtide.codegen.gpu.register_networks import write_key_network
from lowtide.codegen.gpu.threads import block_number, thread_number
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import rounded
from lowtide.codegen.library.order import joined, ordered
from lowtide.codegen.library.records import Fields, Records, records_of
from lowtide.codegen.library.topk_form import TopKForm
from lowtide.codegen.space import decomposed
from lowtide.ir import Instruction, Opcode
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_THREADS = 256
"""Threads of a block that moves elements."""


def plan_gpu_topk(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a topk runs."""
    if instruction.opcode is not Opcode.TOPK:
        return None
    form = TopKForm(instruction)
    if not form.rows * form.size * form.numbers.k:
        return GpuPlan("topk", lambda: GpuCode((), ()))
    tiling = SortTiling(form.rows, form.size)
    if form.rows * tiling.padded >= 1 << 32:
        return None
    if tiling.pieces > 1 and form.numbers.k > tiling.length // 2:
        sort = _whole_sort(form, target)
        return GpuPlan("topk", lambda: _sorted_code(form, sort), sort.scratch_bytes)
    rounds = _rounds(form)
    nbytes = sum([x.kept_bytes for x in rounds[:-1]])
    return GpuPlan("topk", lambda: _code(rounds, target), nbytes)


@dataclass(frozen=True, eq=False, slots=True)
class _Round:
    """A launch that keeps the first records of each tile; they lie in scratch from `first` on."""

    form: TopKForm
    tiling: SortTiling
    first: int
    before: _Round | None

    @property
    def kept(self) -> int:
        """How many records of each tile are kept."""
        return min(self.form.numbers.k, self.tiling.length)

    @property
    def records(self) -> Records:
        """The layout of what is kept."""
        count = self.tiling.rows * self.tiling.pieces * self.kept
        return records_of(self.form.key_bits, count)

    @property
    def kept_bytes(self) -> int:
        """The bytes of what is kept."""
        return rounded(self.records.nbytes * self.records.capacity)


def _rounds(form: TopKForm) -> list[_Round]:
    found = [_Round(form, SortTiling(form.rows, form.size), 0, None)]
    while found[-1].tiling.pieces > 1:
        last = found[-1]
        tiling = SortTiling(form.rows, last.tiling.pieces * last.kept)
        found.append(_Round(form, tiling, last.first + last.kept_bytes, last))
    return found


def _code(rounds: list[_Round], target: Target) -> GpuCode:
    functions, launches, texts = [], [], dict[str, None]()
    for number, x in enumerate(rounds):
        fn = kernel_function(f"topk{number}", x.form.instruction, x.tiling.threads)
        elements = thread_elements(fn, target, 0)
        texts |= dict.fromkeys(_write(x, elements))
        functions.append(fn)
        launches.append(GridLaunch(fn.name, x.tiling.blocks, x.tiling.threads))
    return GpuCode(tuple(functions), tuple(launches), "\n".join(texts))


def _write(x: _Round, elements: Elements) -> list[str]:
    """Write a round; return what the module defines besides."""
    fn, tiling = elements.function, x.tiling
    bound = bind(fn, x.form.instruction, buffer_names(x.form.instruction))
    records = records_of(x.form.key_bits, tiling.tile)
    shared = SharedRecords(records, tiling.tile)
    make = partial(_record, x.form) if x.before is None else partial(_kept_record, x)
    fill_tile(elements, bound, shared, tiling, make)
    write_key_network(fn, shared, tiling)
    with tile_places(fn, elements.scopes, tiling) as at:
        if tiling.pieces > 1:
            with elements.scopes.when(fn.compare("slt", at.number, x.kept)):
                to = fn.add(fn.mul(block_number(fn), x.kept), at.number)
                x.records.store(fn, fn.gep("%scratch", x.first), to, shared.load(fn, at.number))
        else:
            is_kept = fn.compare("slt", at.place, x.form.numbers.k)
            with elements.scopes.when(fn.op(f"and i1 {at.is_there}, {is_kept}")):
                place = records.place(fn, shared.load(fn, at.number))
                _store(x.form, elements, bound, at.row, at.place, place)
    return [*elements.globals.values(), *shared.definitions]


def _record(form: TopKForm, elements: Elements, bound: Bound, at: TilePlace) -> Fields:
    """The record of an element of a row."""
    fn = elements.function
    source = bound.frame.arrays[form.instruction.operands[0]]
    row = decomposed(elements, at.row, form.dimensions[:-1])
    place = elements.indices.variable(at.place, form.size)
    (value,) = elements.read(source, (*row, place), None).values
    largest = form.numbers.largest
    key = ordered(fn, elements.target, value, total_order=True, descending=largest)
    number = Number(fn, elements.target, "i64", 0, str(at.place))
    records = records_of(form.key_bits, 1)
    if records.packed:
        return (((joined([key]) << 32) | number).name,)
    return joined([key]).name, number.cast("trunc", "i32").name


def _kept_record(x: _Round, elements: Elements, bound: Bound, at: TilePlace) -> Fields:
    """A record that the round before has kept."""
    fn, before = elements.function, x.before
    assert before is not None
    place = fn.add(fn.mul(at.row, x.tiling.size), at.place)
    return before.records.load(fn, fn.gep("%scratch", before.first), place)


def _store(
    form: TopKForm, elements: Elements, bound: Bound, row: Integer, to: Integer, place: Integer
) -> None:
    """Store an element of a row, and its place, among the results."""
    fn = elements.function
    values, indices = bound.results
    source = bound.frame.arrays[form.instruction.operands[0]]
    at = decomposed(elements, row, form.dimensions[:-1])
    here = elements.indices.variable(to, form.numbers.k)
    there = elements.indices.variable(fn.min(place, form.size - 1), form.size)
    type_ = values.shape.element_type
    bits, align = f"i{8 * type_.nbytes}", element_bytes(type_)
    element = fn.load(bits, _address(elements, source, (*at, there), bits), align)
    fn.store(bits, element, _address(elements, values, (*at, here), bits), align)
    nbytes = indices.shape.element_type.nbytes
    kind = f"i{8 * nbytes}"
    number = place if nbytes == 8 else fn.op(f"trunc i64 {place} to {kind}")
    fn.store(kind, number, _address(elements, indices, (*at, here), kind), nbytes)


def _address(elements: Elements, array: Array, index: tuple[Affine, ...], bits: str) -> str:
    at = elements.indices.scalar(offset(array.shape, index))
    return elements.function.gep(array.pointer, at, bits)


# -- many of a row ---------------------------------------------------------------------------------


def _whole_sort(form: TopKForm, target: Target) -> RecordSort:
    tiling = SortTiling(form.rows, form.size)
    make = partial(_record, form)
    return RecordSort(form.instruction, target, tiling, form.key_bits, make, "topk")


def _sorted_code(form: TopKForm, sort: RecordSort) -> GpuCode:
    functions, launches, texts = sort.write()
    fn: Function = kernel_function("pick", form.instruction, _THREADS)
    elements = thread_elements(fn, sort.target, 0)
    bound = bind(fn, form.instruction, buffer_names(form.instruction))
    k = form.numbers.k
    number = thread_number(fn, _THREADS, form.rows * k)
    with elements.scopes.when(fn.compare("slt", number, form.rows * k)):
        row, to = fn.div(number, k), fn.rem(number, k)
        at = fn.add(fn.mul(row, sort.tiling.padded), to)
        _store(form, elements, bound, row, to, sort.sorted_place(fn, at))
    functions.append(fn)
    launches.append(GridLaunch(fn.name, -(-form.rows * k // _THREADS), _THREADS))
    return GpuCode(tuple(functions), tuple(launches), "\n".join(dict.fromkeys(texts)))
