"""For each operation, which elements of its operands make an element of its result."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from lowtide.codegen import indexing
from lowtide.codegen.elements.bits import bitcast_convert, recast
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.literals import literal_element
from lowtide.codegen.elements.parts import (
    all_of,
    ask,
    bitcast_index,
    chosen,
    converted,
    floor_split,
    no_rule,
    reshaped,
    within,
)
from lowtide.codegen.elements.tuples import get_tuple_element
from lowtide.codegen.elements.values import CallFrame, Element, Mask, Request, Rule
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Index
from lowtide.ir import ElementType, Opcode
from lowtide.ir.attributes import Dimensions, DynamicSlice, Gather, Iota, Pad, Parameter, Slice

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
        return elements.indices.integer(index, type_)
    extent = max(instruction.shape.dimensions)
    wide = ElementType.S32 if extent < 1 << 31 else ElementType.S64
    found = elements.indices.integer(index, wide)
    return converted(elements, found, type_)


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
    index = bitcast_index(elements, request.at, result, source)
    found = yield ask(request, 0, index)
    return recast(elements, found, elements.raw.get(result.element_type, result.element_type))


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
    return (yield Request(callee.root, (), request.mask, CallFrame(elements=bound)))


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
            inside = elements.vectors.both(inside, test)
        index.append(place.within(0, size - 1))
    if inside is None:
        return (yield ask(request, 0, tuple(index)))
    wanted = elements.vectors.both(inside, request.mask)
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
        found = yield ask(request, number, index, elements.vectors.both(test, request.mask))
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
        found.append(elements.indices.looked_up(start, size - taken + 1))
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
        inside = elements.vectors.both(inside, test)
        index.append(indexing.Affine(place.terms, place.constant, 0, size - 1))
    wanted = elements.vectors.both(inside, request.mask)
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
        index[dimension] = index[dimension] + elements.indices.looked_up(start, free)
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
