"""Top-k: the first k elements of each row in order, with their places.

A row is scanned once. An element that comes before the last of the k best ones so far is put aside.
When there is no more room, what was put aside is sorted, and the best k stay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.record_order import (
    MOST_RANKED,
    count_bytes,
    radix_function,
    ranking_function,
)
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.operands import bind, leaves
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise.memory import element_bytes
from lowtide.codegen.elementwise.number import Number, any_lane
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, rounded, thread_scratch
from lowtide.codegen.library.order import joined, ordered
from lowtide.codegen.library.records import Records, records_of
from lowtide.codegen.library.topk_form import TopKForm
from lowtide.codegen.space import decomposed
from lowtide.ir import ElementType, Instruction
from lowtide.ir.attributes import CustomCall
from lowtide.ir.thunk import Phase
from lowtide.llvm.callee import external
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

ASIDE: Final = 512
"""Elements that are put aside before they are sorted by bytes, at least."""

FEW: Final = 48
"""The same where each is compared with all others instead."""


@dataclass(frozen=True, eq=False)
class TopKScan(TopKForm):
    """A top-k whose rows are scanned, with the room for what is put aside."""

    @cached_property
    def scans(self) -> bool:
        """Whether most elements are only looked at; else all of a row are sorted."""
        return self.key_bits <= 32 and max(2 * self.numbers.k, FEW) < self.size

    @cached_property
    def room(self) -> int:
        """How many elements can be put aside, the best k among them."""
        k = self.numbers.k
        if not self.scans:
            return self.size
        return FEW if 2 * k <= FEW else max(2 * k, k + ASIDE)

    @property
    def is_ranked(self) -> bool:
        """Whether so few are put aside that each is compared with all others."""
        return self.records.packed and self.room + 16 <= MOST_RANKED

    @cached_property
    def records(self) -> Records:
        """The layout of what is put aside."""
        return records_of(self.key_bits, self.room + 64)

    @property
    def array_bytes(self) -> int:
        """The bytes of one of two arrays of records."""
        return rounded(self.records.nbytes * self.records.capacity)

    @property
    def thread_bytes(self) -> int:
        """The scratch of a thread: both arrays, and counts."""
        counts = 0 if self.is_ranked else rounded(count_bytes(self.records))
        return 2 * self.array_bytes + counts


def plan_topk(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a topk whose operand is an array in memory."""
    form = TopKScan(instruction)
    if not form.rows * form.size * form.numbers.k:
        return KernelPlan(lambda: KernelCode((), ()))
    return KernelPlan(lambda: _Writer(form, target).write(), 0, form.thread_bytes)


def plan_topk_call(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a custom call by which XLA asks for the same, None for another call.

    XLA's own passes leave such calls in modules that are scheduled.
    """
    if instruction.attributes_as(CustomCall).target != "TopK" or len(instruction.operands) != 1:
        return None
    source, shapes = instruction.operands[0].shape, leaves(instruction.shape)
    if not source.is_array or not source.rank or len(shapes) != 2 or not shapes[0].rank:
        return None
    if source.element_type.is_complex:
        return None
    k = shapes[0].dimensions[-1]
    sizes = (*source.dimensions[:-1], k)
    kinds = [source.element_type, ElementType.S32]
    if k > source.dimensions[-1] or [(x.element_type, x.dimensions) for x in shapes] != [
        (kind, sizes) for kind in kinds
    ]:
        return None
    return plan_topk(instruction, target)


_FIRST_SET: Final = external("llvm.cttz.i64", "i64", "i64", "i1")


class _Writer:
    """Writes the function of a topk: each row by itself."""

    def __init__(self, form: TopKScan, target: Target) -> None:
        self.form = form
        self.target = target
        self.lanes = target.vector_bytes // (4 if form.key_bits <= 32 else 8)
        self.fn = Function("topk", ARGUMENTS)
        self.elements = vector_elements(self.fn, target, self.lanes)
        bound = bind(self.fn, form.instruction)
        self.source: Array = bound.frame.arrays[form.instruction.operands[0]]
        self.results = bound.results
        self.a = thread_scratch(self.fn, form.thread_bytes)
        self.b = self.fn.gep(self.a, form.array_bytes)
        self.counts = self.fn.gep(self.a, 2 * form.array_bytes)
        self.spilled = self.fn.stack("i64", self.lanes)
        self.sorting = ranking_function(target) if form.is_ranked else radix_function(form.records)

    def write(self) -> KernelCode:
        form = self.form
        with self.elements.scopes.loop("%begin", "%end") as loop:
            row = tuple(decomposed(self.elements, loop.index, form.dimensions[:-1]))
            count = self._scanned(row) if form.scans else self._all(row)
            self._sort(count)
            self._store(row)
        phase = Phase("topk", form.rows, form.size * seconds(4, 2.0 if form.scans else 20.0))
        return KernelCode((self.sorting, self.fn), (phase,))

    def _sort(self, count: Integer) -> None:
        """Have the first k of the elements that were put aside in order."""
        if self.form.is_ranked:
            fn = self.fn
            fn.call(self.sorting, [self.a, self.b, count])
            with fn.loop(0, fn.min(count, self.form.numbers.k)) as loop:
                record = fn.load("i64", fn.gep(self.b, loop.index, "i64"), 8)
                fn.store("i64", record, fn.gep(self.a, loop.index, "i64"), 8)
            return
        self.fn.call(self.sorting, [self.a, self.b, self.counts, 0, count])

    def _vectors(self, step: _Step, carry: list[tuple[str, str]]) -> list[str]:
        """Loop over a row, the rest under a mask; `step` returns what is carried on."""
        elements, size, lanes = self.elements, self.form.size, self.lanes
        rest = size % lanes
        with elements.scopes.loop(0, size - rest, lanes, carry) as loop:
            place = elements.indices.variable(loop.index, size, is_lane=True)
            loop.next = step(place, None, loop.values)
        if not rest:
            return loop.results
        bits = ", ".join([f"i1 {str(i < rest).lower()}" for i in range(lanes)])
        place = elements.indices.variable(size - rest, size, is_lane=True)
        return step(place, Mask(f"<{bits}>", lanes, 0), loop.results)

    def _keys(self, row: tuple[Affine, ...], place: Affine, mask: Mask | None) -> Number:
        (value,) = self.elements.read(self.source, (*row, place), mask).values
        largest = self.form.numbers.largest
        return ordered(self.fn, self.target, value, total_order=True, descending=largest)

    # -- all elements --------------------------------------------------------------------------

    def _all(self, row: tuple[Affine, ...]) -> Integer:
        """Make records of all elements; return their number."""

        def step(place: Affine, mask: Mask | None, values: list[str]) -> list[str]:
            keys = self._keys(row, place, mask)
            places = Number(
                self.fn, self.target, "i64", self.lanes, self.elements.indices.vector(place)
            )
            records, at = self.form.records, self.elements.indices.scalar(place)
            fields = [joined([keys])]
            if records.packed:
                fields = [(fields[0] << 32) | places]
            else:
                fields.append(places.cast("trunc", "i32"))
            for number, field in enumerate(fields):
                pointer = records.part(self.fn, self.a, number, at)
                self.fn.store(field.type, field.name, pointer, field.width // 8)
            return []

        self._vectors(step, [])
        return self.form.size

    # -- a scan --------------------------------------------------------------------------------

    def _scanned(self, row: tuple[Affine, ...]) -> Integer:
        """Put aside what may be among the first k; return how many elements these are."""
        width = max(8, self.form.key_bits)

        def step(place: Affine, mask: Mask | None, values: list[str]) -> list[str]:
            keys = self._keys(row, place, mask)
            bound = self.fn.splat(f"i{width}", values[1], self.lanes)
            better = keys.compare("ule", keys.named(keys.element, bound))
            if mask is not None:
                better = better & better.named("i1", mask.name)
            return self.fn.choose(
                any_lane(better),
                ["i64", f"i{width}"],
                lambda: self._put_aside(place, keys, better, values),
                lambda: values,
            )

        return self._vectors(step, [("i64", "0"), (f"i{width}", "-1")])[0]

    def _put_aside(
        self, place: Affine, keys: Number, better: Number, values: list[str]
    ) -> list[str]:
        """Append records of some lanes; return how many there are then, and the new bound."""
        fn, lanes, form = self.fn, self.lanes, self.form
        places = Number(fn, self.target, "i64", lanes, self.elements.indices.vector(place))
        packed = (joined([keys]) << 32) | places
        fn.store(packed.type, packed.name, self.spilled, 64)
        bits = fn.op(f"bitcast {better.type} {better.name} to i{lanes}")
        wide = fn.op(f"zext i{lanes} {bits} to i64")
        number = fn.intrinsic("ctpop", "i64", wide)
        with fn.loop(0, number, 1, [("i64", wide)]) as loop:
            lane = fn.call(_FIRST_SET, [loop.values[0], "true"])
            record = fn.load("i64", fn.gep(self.spilled, lane, "i64"), 8)
            fn.store("i64", record, fn.gep(self.a, fn.add(values[0], loop.index), "i64"), 8)
            loop.next = [fn.op(f"and i64 {loop.values[0]}, {fn.sub(loop.values[0], 1)}")]
        count = str(fn.add(values[0], number))
        width = f"i{max(8, form.key_bits)}"

        def shrink() -> list[str]:
            self._sort(count)
            last = fn.load("i64", fn.gep(self.a, form.numbers.k - 1, "i64"), 8)
            key = fn.op(f"lshr i64 {last}, 32")
            return [str(form.numbers.k), fn.op(f"trunc i64 {key} to {width}")]

        full = fn.compare("sgt", count, form.room)
        return fn.choose(full, ["i64", width], shrink, lambda: [count, values[1]])

    # -- results -------------------------------------------------------------------------------

    def _store(self, row: tuple[Affine, ...]) -> None:
        fn, elements, form = self.fn, self.elements, self.form
        values, indices = self.results
        with elements.scopes.loop(0, form.numbers.k) as loop:
            here = elements.indices.variable(loop.index, form.numbers.k)
            record = form.records.load(fn, self.a, loop.index)
            place = form.records.place(fn, record)
            at = elements.indices.variable(place, form.size)
            type_ = values.shape.element_type
            bits, align = f"i{8 * type_.nbytes}", element_bytes(type_)
            element = fn.load(bits, self._address(self.source, (*row, at), bits), align)
            fn.store(bits, element, self._address(values, (*row, here), bits), align)
            nbytes = indices.shape.element_type.nbytes
            kind = f"i{8 * nbytes}"
            number = place if nbytes == 8 else fn.op(f"trunc i64 {place} to {kind}")
            fn.store(kind, number, self._address(indices, (*row, here), kind), nbytes)

    def _address(self, array: Array, index: tuple[Affine, ...], bits: str) -> str:
        return self.fn.gep(
            array.pointer, self.elements.indices.scalar(offset(array.shape, index)), bits
        )


_Step = Callable[[Affine, "Mask | None", list[str]], list[str]]
