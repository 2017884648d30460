"""Elements that take a loop: reductions, windows, products, as plainly as they are defined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lowtide.codegen import elementwise, indexing
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.literals import scalar
from lowtide.codegen.elements.nest import nest
from lowtide.codegen.elements.parts import all_of, ask, chosen, converted, floor_split, within
from lowtide.codegen.elements.reducers import Reducer
from lowtide.codegen.elements.values import CallFrame, Element, Mask, Request, Rule
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Opcode
from lowtide.ir.attributes import (
    NO_ATTRIBUTES,
    Convolution,
    Dimensions,
    ReduceWindow,
    WindowDimension,
)
from lowtide.ops.dot_roles import dot_roles


def level_of(request: Request) -> int:
    """Return the depth of loops at which an index, its mask and what a call is given are known."""
    levels = [x.level for x in request.at] + [x.level for x in _given(request)]
    known = max(levels, default=0)
    return known if request.mask is None else max(known, request.mask.level)


def _reduce(elements: Elements, request: Request) -> Rule:
    instruction = request.instruction
    count = len(instruction.operands) // 2
    reduced = instruction.attributes_as(Dimensions).dimensions
    sizes = instruction.operands[0].shape.dimensions
    reducer = Reducer.of(instruction.called_computations[0])
    place = elements.scopes.placed(level_of(request))
    with elements.scopes.at_level(place):
        initial = [ask(request, number, ()) for number in range(count, 2 * count)]
        start = yield from all_of(initial)
        totals = wide(elements, request, reducer.taken(elements, start))
        with nest(elements, [sizes[d] for d in reduced], totals) as loops:
            kept, inner = iter(request.at), dict(zip(reduced, loops.index, strict=True))
            index = tuple([inner[d] if d in inner else next(kept) for d in range(len(sizes))])
            found = yield from all_of([ask(request, x, index) for x in range(count)])
            values = [x.values[0] for x in reducer.taken(elements, found)]
            loops.next = reducer.combined(elements, loops.totals, values)
        results = reducer.finished(elements, loops.results)
    return Element(tuple(results), place)


def _given(request: Request) -> list[Element]:
    """The elements that stand for parameters, in the computation and in those that call it."""
    found: list[Element] = []
    frame: CallFrame | None = request.frame
    while frame is not None:
        found += frame.elements.values()
        frame = frame.parent
    return found


def wide(elements: Elements, request: Request, start: Sequence[Element]) -> list[Value]:
    """Return the accumulators to begin with: vectors where the index or an argument has lanes."""
    values = [x.values[0] for x in start]
    given = [value for x in _given(request) for value in x.values]
    if not any(x.varies for x in request.at) and not any(x.lanes for x in given):
        return values
    return [x if x.lanes else elements.vectors.splat(x) for x in values]


# -- windows ---------------------------------------------------------------------------------------


def met_in_window(
    elements: Elements, at: Affine, step: Affine, size: int, window: WindowDimension
) -> tuple[Affine, Mask | bool | None]:
    """Return the input element that position `step` of a window at `at` meets, and where one is."""
    spread = at * window.stride + step * window.window_dilation + -window.padding_low
    place, rest = floor_split(elements, spread, window.base_dilation)
    inside = within(elements, place, 0, size)
    exact = within(elements, rest, 0, 1)
    if inside is False or exact is False:
        return indexing.ZERO, False
    assert not isinstance(inside, bool) and not isinstance(exact, bool)
    bounded = Affine(place.terms, place.constant, max(place.low, 0), min(place.high, size - 1))
    return bounded, elements.vectors.both(inside, exact)


def _reduce_window(elements: Elements, request: Request) -> Rule:
    instruction = request.instruction
    count = len(instruction.operands) // 2
    sizes = instruction.operands[0].shape.dimensions
    window = instruction.attributes_as(ReduceWindow).window.dimensions
    reducer = Reducer.of(instruction.called_computations[0])
    place = elements.scopes.placed(level_of(request))
    with elements.scopes.at_level(place):
        initial = [ask(request, number, ()) for number in range(count, 2 * count)]
        start = yield from all_of(initial)
        totals = wide(elements, request, reducer.taken(elements, start))
        with nest(elements, [x.size for x in window], totals) as loops:
            index, inside, nowhere = [], None, False
            for at, step, size, x in zip(request.at, loops.index, sizes, window, strict=True):
                met, test = met_in_window(elements, at, step, size, x)
                nowhere = nowhere or test is False
                index.append(met)
                inside = elements.vectors.both(inside, None if isinstance(test, bool) else test)
            if not nowhere:
                wanted = elements.vectors.both(inside, request.mask)
                met_at = tuple(index)
                asked = [ask(request, number, met_at, wanted) for number in range(count)]
                found = yield from all_of(asked)
                values = [x.values[0] for x in reducer.taken(elements, found)]
                after = reducer.combined(elements, loops.totals, values)
                loops.next = kept(elements, inside, after, loops.totals)
        results = reducer.finished(elements, loops.results)
    return Element(tuple(results), place)


def kept(
    elements: Elements, inside: Mask | None, after: list[Value], before: list[Value]
) -> list[Value]:
    """Return the totals after a value that counts only where there is one."""
    if inside is None:
        return after
    level = elements.scopes.level
    yes, no = Element(tuple(after), level), Element(tuple(before), level)
    return list(chosen(elements, inside, yes, no).values)


# -- products --------------------------------------------------------------------------------------


def product_type(type_: ElementType) -> ElementType:
    """Return the type in which products are added up."""
    narrow = type_.is_floating and type_.bits < 32
    return ElementType.F32 if narrow else type_


def multiplied(elements: Elements, total: Value, a: Element, b: Element) -> list[Value]:
    """Return the total after a product of two elements of any types; real ones round once."""
    type_ = total.type
    x = converted(elements, a, type_).values[0]
    y = converted(elements, b, type_).values[0]
    x, y, total = elements.vectors.same_lanes([x, y, total])
    if type_ in (ElementType.F32, ElementType.F64):
        names = (x.name, y.name, total.name)
        fused = elements.function.intrinsic("fma", total.llvm_type, *names)
        return [Value((fused,), type_, total.lanes)]
    is_predicate = type_ is ElementType.PRED
    times, plus = (Opcode.AND, Opcode.OR) if is_predicate else (Opcode.MULTIPLY, Opcode.ADD)
    fn, target = elements.function, elements.target
    product = elementwise.emit_op(fn, target, times, NO_ATTRIBUTES, type_, [x, y])
    return [elementwise.emit_op(fn, target, plus, NO_ATTRIBUTES, type_, [total, product])]


def _dot(elements: Elements, request: Request) -> Rule:
    instruction = request.instruction
    left, roles = instruction.operands[0].shape, dot_roles(instruction)
    type_ = product_type(instruction.shape.element_type)
    place = elements.scopes.placed(level_of(request))
    with elements.scopes.at_level(place):
        totals = wide(elements, request, [Element((scalar(0, type_),), 0)])
        sizes = [left.dimensions[d] for d in roles[0].contracted]
        with nest(elements, sizes, totals) as loops:
            found = []
            for number, side in enumerate(roles):
                batch, free = request.at[: len(side.batch)], request.at[side.first :]
                index = tuple(side.spread(batch, loops.index, free))
                found.append((yield ask(request, number, index)))
            loops.next = multiplied(elements, loops.totals[0], *found)
    total = Element((loops.results[0],), place)
    return converted(elements, total, instruction.shape.element_type)


def _convolution(elements: Elements, request: Request) -> Rule:
    instruction = request.instruction
    attributes = instruction.attributes_as(Convolution)
    numbers, window = attributes.dimensions, attributes.window.dimensions
    data, kernel = (x.shape for x in instruction.operands)
    type_ = product_type(instruction.shape.element_type)
    place = elements.scopes.placed(level_of(request))
    with elements.scopes.at_level(place):
        totals = wide(elements, request, [Element((scalar(0, type_),), 0)])
        features = kernel.dimensions[numbers.kernel_input_feature]
        with nest(elements, [*[x.size for x in window], features], totals) as loops:
            *steps, feature = loops.index
            batch, plane = _groups(elements, request, attributes)
            left: dict[int, Affine] = {
                numbers.input_batch: batch,
                numbers.input_feature: plane * features + feature,
            }
            right = {
                numbers.kernel_input_feature: feature,
                numbers.kernel_output_feature: request.at[numbers.output_feature],
            }
            inside, nowhere = None, False
            for i, (step, x) in enumerate(zip(steps, window, strict=True)):
                at = request.at[numbers.output_spatial[i]]
                size = data.dimensions[numbers.input_spatial[i]]
                met, test = met_in_window(elements, at, step, size, x)
                nowhere = nowhere or test is False
                inside = elements.vectors.both(inside, None if isinstance(test, bool) else test)
                left[numbers.input_spatial[i]] = met
                flipped = step * -1 + (x.size - 1) if x.reversal else step
                right[numbers.kernel_spatial[i]] = flipped
            if not nowhere:
                wanted = elements.vectors.both(inside, request.mask)
                a = yield ask(request, 0, tuple([left[d] for d in range(data.rank)]), wanted)
                b = yield ask(request, 1, tuple([right[d] for d in range(kernel.rank)]))
                after = multiplied(elements, loops.totals[0], a, b)
                loops.next = kept(elements, inside, after, loops.totals)
    total = Element((loops.results[0],), place)
    return converted(elements, total, instruction.shape.element_type)


def _groups(elements: Elements, request: Request, attributes: Convolution) -> tuple[Affine, Affine]:
    """The index of the input's batch, and the number of the group of input features."""
    numbers = attributes.dimensions
    shape = request.instruction.shape
    batch = request.at[numbers.output_batch]
    feature = request.at[numbers.output_feature]
    outputs = shape.dimensions[numbers.output_feature]
    if attributes.batch_group_count > 1:
        group, _ = elements.indices.split(feature, max(1, outputs // attributes.batch_group_count))
        return group * shape.dimensions[numbers.output_batch] + batch, indexing.ZERO
    group, _ = elements.indices.split(feature, max(1, outputs // attributes.feature_group_count))
    return batch, group


RULES: Final[dict[Opcode, Callable[[Elements, Request], Rule]]] = {
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.DOT: _dot,
    Opcode.CONVOLUTION: _convolution,
}
"""Rules that compute an element by loops over others."""
