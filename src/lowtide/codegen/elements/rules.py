"""For each operation, which elements of its operands make an element of its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Final

from lowtide.codegen import elementwise, indexing
from lowtide.codegen.elements.bits import bitcast_convert, recast
from lowtide.codegen.elements.division import divided
from lowtide.codegen.elements.elements import Element, Frame, Mask, Request
from lowtide.codegen.elements.literals import literal_element
from lowtide.codegen.elements.tuples import get_tuple_element
from lowtide.codegen.elementwise import memory
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Opcode, Shape
from lowtide.ir.attributes import (
    NO_ATTRIBUTES,
    Dimensions,
    DynamicSlice,
    Gather,
    Iota,
    Pad,
    Parameter,
    Slice,
)
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.places import unsupported
from lowtide.ops.table import TABLE

if TYPE_CHECKING:
    from lowtide.codegen.elements.elements import Elements, Index, Rule


def rule_of(elements: Elements, request: Request) -> Rule:
    """Return the rule that computes a request; raises UnsupportedOpError where there is none."""
    found = elements.provided(request)
    if found is not None:
        return _given(found)
    instruction = request.instruction
    array = request.frame.arrays.get(instruction)
    if array is not None:
        return _given(elements.read(array, request.at, request.mask))
    rule = RULES.get(instruction.opcode)
    if rule is None:
        if TABLE[instruction.opcode].elementwise:
            return _elementwise(elements, request)
        rule = loop_rules().get(instruction.opcode)
    if rule is None:
        raise no_rule(instruction)
    return rule(elements, request)


def has_rule(instruction: Instruction) -> bool:
    """Whether elements of an instruction can be computed one by one."""
    opcode = instruction.opcode
    return opcode in RULES or TABLE[opcode].elementwise or opcode in loop_rules()


def loop_rules() -> dict[Opcode, Callable[[Elements, Request], Rule]]:
    """The rules that have loops or conditions in them."""
    from lowtide.codegen.elements.control import CONTROL_RULES
    from lowtide.codegen.elements.loops import LOOP_RULES
    from lowtide.codegen.elements.ragged import RAGGED_RULES

    return {**LOOP_RULES, **CONTROL_RULES, **RAGGED_RULES}


def no_rule(instruction: Instruction) -> UnsupportedOpError:
    """The error for an operation that no kernel computes."""
    reason = "there is no native code for it; the evaluator runs it (lowtide run --reference)"
    return unsupported(instruction, reason)


def _given(element: Element) -> Rule:
    yield from ()
    return element


def ask(
    request: Request, number: int, index: Index | None = None, mask: Mask | None = None
) -> Request:
    """Return the request for operand `number`, at the same index where none is given."""
    operand = request.instruction.operands[number]
    at = request.at if index is None else index
    return Request(operand, at, mask or request.mask, request.frame)


def all_of(requests: Iterable[Request]) -> Generator[Request, Element, tuple[Element, ...]]:
    """Ask for several elements, and return them."""
    found: tuple[Element, ...] = ()
    for request in requests:
        found = (*found, (yield request))
    return found


def _elementwise(elements: Elements, request: Request) -> Rule:
    instruction = request.instruction
    found = yield from all_of(
        [
            Request(x, request.at if x.shape.rank else (), request.mask, request.frame)
            for x in instruction.operands
        ]
    )
    level = max([x.level for x in found], default=0)
    values = elements.all_lanes(found)
    place = elements.placed(level)
    with elements.at_level(place):
        result = divided(elements, instruction, found)
        if result is None:
            result = elementwise.emit(elements.function, elements.target, instruction, values)
    return Element((result,), place)


# -- sources -----------------------------------------------------------------------------------


def _parameter(elements: Elements, request: Request) -> Rule:
    instruction, frame = request.instruction, request.frame
    element = frame.elements.get(instruction)
    if element is not None:
        return element
    arrays = frame.tuples.get(instruction)
    if arrays is not None:
        parts = [elements.read(x, request.at, request.mask) for x in arrays]
        values = tuple([value for x in parts for value in x.values])
        return Element(values, max([x.level for x in parts], default=0))
    assert frame.caller is not None and frame.parent is not None, instruction.name
    number = instruction.attributes_as(Parameter).number
    operand = frame.caller.operands[number]
    return (yield Request(operand, request.at, request.mask, frame.parent))


def _constant(elements: Elements, request: Request) -> Rule:
    yield from ()
    return literal_element(elements, request)


def _iota(elements: Elements, request: Request) -> Rule:
    yield from ()
    instruction = request.instruction
    index = request.at[instruction.attributes_as(Iota).dimension]
    type_ = instruction.shape.element_type
    if type_.is_integer and type_.bits >= 8:
        return elements.integer(index, type_)
    extent = max(instruction.shape.dimensions)
    wide = ElementType.S32 if extent < 1 << 31 else ElementType.S64
    found = elements.integer(index, wide)
    return converted(elements, found, type_)


def converted(elements: Elements, element: Element, type_: ElementType) -> Element:
    """Return an element converted to another type."""
    (value,) = element.values
    if value.type is type_:
        return element
    result: Value = elements.once(
        ("convert", value, type_),
        element.level,
        lambda: elementwise.emit_op(
            elements.function, elements.target, Opcode.CONVERT, NO_ATTRIBUTES, type_, [value]
        ),
    )
    return Element((result,), elements.placed(element.level))


# -- indices ------------------------------------------------------------------------------------


def _broadcast(elements: Elements, request: Request) -> Rule:
    at = request.instruction.attributes_as(Dimensions).dimensions
    operand = request.instruction.operands[0].shape.dimensions
    index = tuple(
        [indexing.ZERO if size == 1 else request.at[d] for d, size in zip(at, operand, strict=True)]
    )
    return (yield ask(request, 0, index))


def _transpose(elements: Elements, request: Request) -> Rule:
    permutation = request.instruction.attributes_as(Dimensions).dimensions
    index: list[indexing.Affine] = [indexing.ZERO] * len(permutation)
    for place, dimension in enumerate(permutation):
        index[dimension] = request.at[place]
    return (yield ask(request, 0, tuple(index)))


def _reshape(elements: Elements, request: Request) -> Rule:
    source = request.instruction.operands[0].shape
    result = request.instruction.shape
    if source.element_type is not result.element_type:
        raise no_rule(request.instruction)
    sizes = source.dimensions
    index = reshaped(elements, request.at, result.dimensions, sizes)
    return (yield ask(request, 0, index))


def _bitcast(elements: Elements, request: Request) -> Rule:
    """The element at the same place in memory, whatever the layouts."""
    source = request.instruction.operands[0].shape
    result = request.instruction.shape
    if source.element_type.bits != result.element_type.bits:
        raise no_rule(request.instruction)
    theirs, ours = _major_to_minor(source), _major_to_minor(result)
    places = reshaped(
        elements,
        tuple([request.at[d] for d in ours]),
        tuple([result.dimensions[d] for d in ours]),
        tuple([source.dimensions[d] for d in theirs]),
    )
    index = dict(zip(theirs, places, strict=True))
    found = yield ask(request, 0, tuple([index[d] for d in range(source.rank)]))
    return recast(elements, found, elements.raw.get(result.element_type, result.element_type))


def _major_to_minor(shape: Shape) -> tuple[int, ...]:
    if shape.layout is None:
        return tuple(range(shape.rank))
    return shape.layout.minor_to_major[::-1]


def reshaped(
    elements: Elements, index: Index, result: tuple[int, ...], sizes: tuple[int, ...]
) -> Index:
    """Return the index in an array of `sizes` of the element at an index of its reshape."""
    rest = indexing.linear(index, result)
    found = []
    for size in reversed(sizes):
        rest, position = elements.split(rest, size)
        found.append(position)
    return tuple(reversed(found))


def _slice(elements: Elements, request: Request) -> Rule:
    attributes = request.instruction.attributes_as(Slice)
    index = tuple(
        [
            x * step + start
            for x, start, step in zip(
                request.at, attributes.starts, attributes.strides, strict=True
            )
        ]
    )
    return (yield ask(request, 0, index))


def _reverse(elements: Elements, request: Request) -> Rule:
    flipped = request.instruction.attributes_as(Dimensions).dimensions
    sizes = request.instruction.shape.dimensions
    index = tuple(
        [x * -1 + (sizes[d] - 1) if d in flipped else x for d, x in enumerate(request.at)]
    )
    return (yield ask(request, 0, index))


def _pass_on(elements: Elements, request: Request) -> Rule:
    return (yield ask(request, 0))


def _tuple(elements: Elements, request: Request) -> Rule:
    count = len(request.instruction.operands)
    found = yield from all_of([ask(request, number) for number in range(count)])
    values = tuple([value for x in found for value in x.values])
    return Element(values, max([x.level for x in found], default=0))


def _call(elements: Elements, request: Request) -> Rule:
    callee = request.instruction.called_computations[0]
    frame = elements.frame_of(request.frame, request.instruction)
    return (yield Request(callee.root, request.at, request.mask, frame))


def _map(elements: Elements, request: Request) -> Rule:
    count = len(request.instruction.operands)
    found = yield from all_of([ask(request, number) for number in range(count)])
    callee = request.instruction.called_computations[0]
    bound = dict(zip(callee.parameters, found, strict=True))
    return (yield Request(callee.root, (), request.mask, Frame(elements=bound)))


# -- parts ---------------------------------------------------------------------------------------


def within(elements: Elements, index: indexing.Affine, low: int, high: int) -> Mask | bool | None:
    """Return where low <= index < high: a mask, None for everywhere, False for nowhere."""
    if index.low >= low and index.high < high:
        return None
    if index.high < low or index.low >= high or low >= high:
        return False
    elements.fix(index)
    elements.tests.append((index, low, high))
    found: Mask = elements.once(
        ("within", index, low, high), index.level, lambda: _compared(elements, index, low, high)
    )
    return found


def _compared(elements: Elements, index: indexing.Affine, low: int, high: int) -> Mask:
    """One unsigned comparison: what is less than low is large after the subtraction."""
    fn = elements.function
    shifted = index + -low
    lanes = elements.lanes
    limit = 1 << 31
    if index.varies and max(-shifted.low, shifted.high, high - low) < limit:
        vector = elements.narrow_vector(shifted)
        name = fn.op(f"icmp ult <{lanes} x i32> {vector}, splat (i32 {high - low})")
        return Mask(name, lanes, index.level)
    if index.varies:
        vector = elements.vector(shifted)
        name = fn.op(f"icmp ult <{lanes} x i64> {vector}, splat (i64 {high - low})")
        return Mask(name, lanes, index.level)
    return Mask(fn.compare("ult", elements.scalar(shifted), high - low), 0, index.level)


def chosen(elements: Elements, mask: Mask, yes: Element, no: Element) -> Element:
    """Return the elements of `yes` where a mask holds, else those of `no`."""
    level = max(mask.level, yes.level, no.level)
    place = elements.placed(level)
    with elements.at_level(place):
        values = [
            _selected(elements, mask, a, b, level)
            for a, b in zip(yes.values, no.values, strict=True)
        ]
    return Element(tuple(values), place)


def _selected(elements: Elements, mask: Mask, a: Value, b: Value, level: int) -> Value:
    fn = elements.function
    a, b = elements.same_lanes([a, b], level)
    if mask.lanes and not a.lanes:
        a, b = elements.splat(a, level), elements.splat(b, level)
    condition = mask.name
    kind = f"<{mask.lanes} x i1>" if mask.lanes else "i1"
    names = tuple(
        [
            fn.op(f"select {kind} {condition}, {a.llvm_type} {x}, {b.llvm_type} {y}")
            for x, y in zip(a.names, b.names, strict=True)
        ]
    )
    return Value(names, a.type, a.lanes)


def floor_split(
    elements: Elements, index: indexing.Affine, divisor: int
) -> tuple[indexing.Affine, indexing.Affine]:
    """Return quotient, rounded down, and remainder of an index that may be negative."""
    shift = max(0, -(index.low // divisor))
    quotient, remainder = elements.split(index + shift * divisor, divisor)
    return quotient + -shift, remainder


def _pad(elements: Elements, request: Request) -> Rule:
    sizes = request.instruction.operands[0].shape.dimensions
    padding = request.instruction.attributes_as(Pad).dimensions
    index: list[indexing.Affine] = []
    inside: Mask | None = None
    for x, size, edge in zip(request.at, sizes, padding, strict=True):
        place, rest = floor_split(elements, x + -edge.low, edge.interior + 1)
        for test in (within(elements, place, 0, size), within(elements, rest, 0, 1)):
            if test is False:
                return (yield ask(request, 1, ()))
            assert not isinstance(test, bool)
            inside = elements.both(inside, test)
        index.append(place.within(0, size - 1))
    if inside is None:
        return (yield ask(request, 0, tuple(index)))
    wanted = elements.both(inside, request.mask)
    yes = yield ask(request, 0, tuple(index), wanted)
    no = yield ask(request, 1, ())
    return chosen(elements, inside, yes, no)


def _concatenate(elements: Elements, request: Request) -> Rule:
    (dimension,) = request.instruction.attributes_as(Dimensions).dimensions
    start = 0
    result: Element | None = None
    for number, operand in enumerate(request.instruction.operands):
        size = operand.shape.dimensions[dimension]
        place = request.at[dimension] + -start
        test = within(elements, place, 0, size)
        start += size
        if test is False:
            continue
        assert not isinstance(test, bool)
        at = place.within(0, size - 1)
        index = (*request.at[:dimension], at, *request.at[dimension + 1 :])
        found = yield ask(request, number, index, elements.both(test, request.mask))
        result = found if result is None or test is None else chosen(elements, test, found, result)
    assert result is not None
    return result


# -- indices from memory -------------------------------------------------------------------------


def _starts(
    elements: Elements, request: Request, first: int, sizes: tuple[int, ...]
) -> Generator[Request, Element, list[indexing.Affine]]:
    """The start of a slice of `sizes` of operand 0, clamped so that the slice lies within it."""
    whole = request.instruction.operands[0].shape.dimensions
    found = []
    for number, (size, taken) in enumerate(zip(whole, sizes, strict=True)):
        start = yield ask(request, first + number, ())
        found.append(elements.looked_up(start, size - taken + 1))
    return found


def _dynamic_slice(elements: Elements, request: Request) -> Rule:
    sizes = request.instruction.attributes_as(DynamicSlice).sizes
    starts = yield from _starts(elements, request, 1, sizes)
    return (yield ask(request, 0, tuple([x + s for x, s in zip(request.at, starts, strict=True)])))


def _dynamic_update_slice(elements: Elements, request: Request) -> Rule:
    sizes = request.instruction.operands[1].shape.dimensions
    starts = yield from _starts(elements, request, 2, sizes)
    inside: Mask | None = None
    index = []
    for x, start, size in zip(request.at, starts, sizes, strict=True):
        place = x - start
        test = within(elements, place, 0, size)
        if test is False:
            return (yield ask(request, 0))
        assert not isinstance(test, bool)
        inside = elements.both(inside, test)
        index.append(indexing.Affine(place.terms, place.constant, 0, size - 1))
    wanted = elements.both(inside, request.mask)
    yes = yield ask(request, 1, tuple(index), wanted)
    if inside is None:
        return yes
    no = yield ask(request, 0)
    return chosen(elements, inside, yes, no)


def _gather(elements: Elements, request: Request) -> Rule:
    instruction = request.instruction
    numbers = instruction.attributes_as(Gather)
    data, indices = instruction.operands
    batch = [x for d, x in enumerate(request.at) if d not in numbers.offset_dims]
    offsets = iter([request.at[d] for d in numbers.offset_dims])
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    index = [indexing.ZERO if d in dropped else next(offsets) for d in range(data.shape.rank)]
    for number, dimension in enumerate(numbers.start_index_map):
        at = _index_place(numbers.index_vector_dim, indices.shape.rank, batch, number)
        start = yield ask(request, 1, at)
        free = data.shape.dimensions[dimension] - numbers.slice_sizes[dimension] + 1
        index[dimension] = index[dimension] + elements.looked_up(start, free)
    for mine, theirs in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        place = theirs - (1 if theirs > numbers.index_vector_dim else 0)
        index[mine] = index[mine] + batch[place]
    return (yield ask(request, 0, tuple(index)))


def _index_place(
    vector_dimension: int, rank: int, batch: list[indexing.Affine], number: int
) -> Index:
    """Where component `number` of the index vector of a batch element lies."""
    if vector_dimension == rank:
        return tuple(batch)
    at = list(batch)
    at.insert(vector_dimension, indexing.constant(number))
    return tuple(at)


def _get_dimension_size(elements: Elements, request: Request) -> Rule:
    yield from ()
    (dimension,) = request.instruction.attributes_as(Dimensions).dimensions
    size = request.instruction.operands[0].shape.dimensions[dimension]
    return Element((memory.constant(ElementType.S32, size),), 0)


RULES: Final[dict[Opcode, Callable[[Elements, Request], Rule]]] = {
    Opcode.PARAMETER: _parameter,
    Opcode.CONSTANT: _constant,
    Opcode.IOTA: _iota,
    Opcode.BROADCAST: _broadcast,
    Opcode.TRANSPOSE: _transpose,
    Opcode.RESHAPE: _reshape,
    Opcode.BITCAST: _bitcast,
    Opcode.BITCAST_CONVERT: bitcast_convert,
    Opcode.SLICE: _slice,
    Opcode.REVERSE: _reverse,
    Opcode.COPY: _pass_on,
    Opcode.OPTIMIZATION_BARRIER: _pass_on,
    Opcode.ADD_DEPENDENCY: _pass_on,
    Opcode.DOMAIN: _pass_on,
    Opcode.GET_TUPLE_ELEMENT: get_tuple_element,
    Opcode.TUPLE: _tuple,
    Opcode.CALL: _call,
    Opcode.FUSION: _call,
    Opcode.MAP: _map,
    Opcode.PAD: _pad,
    Opcode.CONCATENATE: _concatenate,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.GATHER: _gather,
    Opcode.GET_DIMENSION_SIZE: _get_dimension_size,
}
