"""The functions of a sort that read and write arrays: records are made of elements, and back."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.cpu.library.merging import PARAMETERS, MergeWriter
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.values import CallFrame, Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.elementwise.number import Number
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.library.order import joined, ordered
from lowtide.codegen.library.records import Fields
from lowtide.codegen.library.sort_form import SortForm
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.callee import FunctionParameter, parameters
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target


class RowFunction:
    """A function that works on a row, `%row`, of the arrays of a sort; `sources` are operands."""

    def __init__(
        self,
        form: SortForm,
        target: Target,
        name: str,
        parameters: tuple[FunctionParameter, ...],
        lanes: int,
    ) -> None:
        self.form = form
        self.target = target
        self.function = Function(name, parameters, linkage="internal")
        self.elements = vector_elements(self.function, target, lanes)
        bound = bind(self.function, form.sort)
        self.results = bound.results
        self.sources = [bound.frame.arrays[x] for x in form.sort.operands]
        self.others = decomposed(self.elements, "%row", form.others)

    def index(self, place: Affine) -> Index:
        """The index of the element of the row at a place."""
        at = self.form.dimension
        return (*self.others[:at], place, *self.others[at:])

    def raw(self, array: Array, place: Affine) -> tuple[str, str, int]:
        """The address of an element, its type as bits, and its alignment."""
        type_ = array.shape.element_type
        bits = f"i{8 * type_.nbytes}"
        at = self.elements.indices.scalar(offset(array.shape, self.index(place)))
        return self.function.gep(array.pointer, at, bits), bits, memory.element_bytes(type_)


# -- from elements to records ----------------------------------------------------------------------


def fill_function(form: SortForm, target: Target) -> RowFunction:
    """Return a function that makes the records of elements first..last of a row, in `a`."""
    lanes = target.vector_bytes // 8
    given = parameters(buffers="ptr", row="i64", a="ptr", first="i64", last="i64")
    row = RowFunction(form, target, "fill", given, lanes)
    fn, elements = row.function, row.elements
    whole = fn.sub("%last", fn.op(f"urem i64 {fn.sub('%last', '%first')}, {lanes}"))
    with elements.scopes.loop("%first", whole, lanes) as loop:
        place = elements.indices.variable(loop.index, form.size, is_lane=True)
        _fill(row, place, None)
    with elements.scopes.when(fn.compare("slt", whole, "%last")):
        place = elements.indices.variable(whole, form.size, is_lane=True)
        last = fn.splat("i64", "%last", lanes)
        inside = fn.op(f"icmp ult <{lanes} x i64> {elements.indices.vector(place)}, {last}")
        _fill(row, place, Mask(inside, lanes, elements.scopes.level))
    return row


def _fill(row: RowFunction, place: Affine, mask: Mask | None) -> None:
    form, elements, fn = row.form, row.elements, row.function
    lanes, records = elements.lanes, form.records
    places = Number(fn, row.target, "i64", lanes, elements.indices.vector(place))
    keys = keys_at(form, elements, row.sources, row.index(place), mask)
    if records.packed:
        fields = [(joined(keys) << 32) | places]
    else:
        fields = [joined(keys)] if keys else []
        fields.append(places.cast("trunc", "i32"))
    for number, field in enumerate(fields):
        type_ = ElementType.U64 if field.element == "i64" else ElementType.U32
        pointer = records.part(fn, "%a", number, elements.indices.scalar(place))
        name = None if mask is None else mask.name
        memory.store(fn, row.target, Value((field.name,), type_, lanes), pointer, name)


def keys_at(
    form: SortForm, elements: Elements, arrays: Sequence[Array], index: Index, mask: Mask | None
) -> list[Number]:
    """Return the keys of elements, as integers in their order; the operands lie in `arrays`."""
    if not form.keys:
        return []
    firsts = form.sort.called_computations[0].parameters[::2]
    given = {
        first: elements.read(array, index, mask)
        for first, array in zip(firsts, arrays, strict=True)
        if first.users
    }
    frame = CallFrame(elements=given)
    found = []
    for key in form.keys:
        element = elements.all_at(key.expression, (), frame)
        (value,) = elements.vectors.same_lanes(
            [*element.values, _any_lanes(elements)], elements.scopes.level
        )[:1]
        number = ordered(
            elements.function,
            elements.target,
            value,
            total_order=key.total_order,
            descending=key.descending,
        )
        found.append(number)
    return found


def _any_lanes(elements: Elements) -> Value:
    """A vector of zeros: beside it, a value that is the same for all lanes becomes a vector."""
    return Value(("zeroinitializer",), ElementType.U8, elements.lanes)


# -- the comparator on places ----------------------------------------------------------------------


def merge_function(form: SortForm, target: Target) -> RowFunction:
    """Return the function that merges records of a row."""
    row = RowFunction(form, target, "merge", PARAMETERS, 0)
    if form.keys:
        MergeWriter(row.elements, form.records, lambda a, b: _key_less(row, a, b)).write()
    else:
        MergeWriter(row.elements, form.records, lambda a, b: _compared(row, a, b)).write()
    return row


def _key_less(row: RowFunction, a: Fields, b: Fields) -> str:
    return row.form.records.key_less(row.function, a, b)


def _compared(row: RowFunction, a: Fields, b: Fields) -> str:
    """Whether the comparator puts one record before another."""
    form, elements = row.form, row.elements
    comparator = form.sort.called_computations[0]
    places = [
        elements.indices.variable(form.records.place(row.function, x), form.size) for x in (a, b)
    ]
    given: dict[Instruction, Element] = {}
    for number, parameter in enumerate(comparator.parameters):
        if parameter.users or parameter is comparator.root:
            array, place = row.sources[number // 2], places[number % 2]
            given[parameter] = elements.read(array, row.index(place), None)
    return elements.all_at(comparator.root, (), CallFrame(elements=given)).values[0].name


# -- from records to elements ----------------------------------------------------------------------

_MOVED = parameters(buffers="ptr", row="i64", a="ptr", b="ptr", first="i64", last="i64")


def pick_function(form: SortForm, target: Target, number: int) -> RowFunction:
    """Return a function that puts elements of operand `number` in order.

    They go to the result, or to `b` where the result lies in the place of the operand.
    """
    row = RowFunction(form, target, f"pick{number}", _MOVED, 0)
    fn = row.function
    with row.elements.scopes.when(_are_apart(row, number)):
        _pick(row, number, None)
    with row.elements.scopes.when(fn.op(f"xor i1 {_are_apart(row, number)}, true")):
        _pick(row, number, "%b")
    return row


def _are_apart(row: RowFunction, number: int) -> str:
    source, result = row.sources[number].pointer, row.results[number].pointer
    return row.function.op(f"icmp ne ptr {source}, {result}")


def _pick(row: RowFunction, number: int, stage: str | None) -> None:
    fn, elements, form = row.function, row.elements, row.form
    with elements.scopes.loop("%first", "%last") as loop:
        here = elements.indices.variable(loop.index, form.size)
        place = form.records.place(fn, form.records.load(fn, "%a", loop.index))
        source, bits, align = row.raw(
            row.sources[number], elements.indices.variable(place, form.size)
        )
        to = fn.gep(stage, loop.index, bits) if stage else row.raw(row.results[number], here)[0]
        fn.store(bits, fn.load(bits, source, align), to, align)


def put_function(form: SortForm, target: Target, number: int) -> RowFunction:
    """Return a function that moves what `pick_function` left in `b` to the result."""
    row = RowFunction(form, target, f"put{number}", _MOVED, 0)
    fn, elements = row.function, row.elements
    in_place = fn.op(f"xor i1 {_are_apart(row, number)}, true")
    with elements.scopes.when(in_place), elements.scopes.loop("%first", "%last") as loop:
        here = elements.indices.variable(loop.index, form.size)
        to, bits, align = row.raw(row.results[number], here)
        fn.store(bits, fn.load(bits, fn.gep("%b", loop.index, bits), align), to, align)
    return row
