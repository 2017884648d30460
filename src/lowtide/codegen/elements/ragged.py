"""Elements of a ragged-dot: a product whose operand or sum depends on the sizes of groups."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, TypeAlias, TypeVar

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.literals import scalar
from lowtide.codegen.elements.loops import kept, level_of, multiplied, product_type, wide
from lowtide.codegen.elements.nest import nest
from lowtide.codegen.elements.parts import ask, chosen, converted
from lowtide.codegen.elements.values import Element, Mask, Request, Rule
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.value import Value, vector_type
from lowtide.ir import ElementType, Opcode
from lowtide.ir.attributes import RaggedDot
from lowtide.ir.errors import unsupported
from lowtide.ops.dot_roles import roles_of

T = TypeVar("T")

Steps: TypeAlias = Generator[Request, Element, T]
"""A part of a rule, which returns something else than an element."""


def ragged_dot(elements: Elements, request: Request) -> Rule:
    """Return an element of a ragged-dot; rows behind the last group are 0."""
    instruction = request.instruction
    attributes = instruction.attributes_as(RaggedDot)
    (ragged,) = attributes.lhs_ragged
    numbers = attributes.dimensions
    if instruction.operands[2].shape.rank != 1:
        raise unsupported(instruction, "sizes of groups that differ over the batch are not run")
    place = elements.scopes.placed(level_of(request))
    with elements.scopes.at_level(place):
        if ragged in numbers.lhs_contracting:
            position = numbers.lhs_contracting.index(ragged)
            number = elements.indices.integer(request.at[0], ElementType.S64)
            start, end = yield from _bounds(elements, request, number)
            limits = (position, start, end)
            total = yield from _summed(elements, request, request.at[1:], None, limits)
        elif ragged in numbers.lhs_batch:
            total = yield from _summed(elements, request, request.at, None, None)
        else:
            total = yield from _of_group(elements, request, ragged)
    return converted(elements, Element((total,), place), instruction.shape.element_type)


def _of_group(elements: Elements, request: Request, ragged: int) -> Steps[Value]:
    """The product of a row with the matrix of its group, 0 where it has none."""
    attributes = request.instruction.attributes_as(RaggedDot)
    ranks = [x.shape.rank for x in request.instruction.operands[:2]]
    lhs, _ = roles_of(attributes.dimensions, *ranks)
    row = request.at[lhs.places[ragged]]
    number = elements.indices.integer(row, ElementType.S64)
    group = yield from _group(elements, request, number)
    count = request.instruction.operands[2].shape.dimensions[0]
    inside = _compared(elements, "slt", group, count)
    place = elements.indices.looked_up(Element((group,), elements.scopes.level), count)
    total = yield from _summed(elements, request, request.at, place, None)
    zero = Element((scalar(0, total.type),), 0)
    return chosen(elements, inside, Element((total,), elements.scopes.level), zero).values[0]


def _group(elements: Elements, request: Request, row: Element) -> Steps[Value]:
    """The number of the groups that end at a row or before it."""
    fn, (value,) = elements.function, row.values
    kind = vector_type("i64", value.lanes)
    zero = "zeroinitializer" if value.lanes else "0"
    start = [Value(("0",), ElementType.S64), Value((zero,), ElementType.S64, value.lanes)]
    count = request.instruction.operands[2].shape.dimensions[0]
    with nest(elements, [count], start) as loop:
        end = yield from _added(elements, request, loop.totals[0], loop.index[0])
        wide, mine = elements.vectors.same_lanes([end, value])
        test = fn.op(f"icmp sle {kind} {wide.name}, {mine.name}")
        one = fn.op(f"zext {vector_type('i1', value.lanes)} {test} to {kind}")
        total = fn.op(f"add {kind} {loop.totals[1].name}, {one}")
        loop.next = [end, Value((total,), ElementType.S64, value.lanes)]
    return loop.results[1]


def _bounds(elements: Elements, request: Request, group: Element) -> Steps[list[Value]]:
    """Where a group begins and ends."""
    fn, (value,) = elements.function, group.values
    kind = vector_type("i64", value.lanes)
    zero = Value(("zeroinitializer" if value.lanes else "0",), ElementType.S64, value.lanes)
    count = request.instruction.operands[2].shape.dimensions[0]
    with nest(elements, [count], [zero, zero]) as loop:
        before = yield from _added(elements, request, Value(("0",), ElementType.S64), loop.index[0])
        number = elements.indices.integer(loop.index[0], ElementType.S64).values[0]
        size, at, mine = elements.vectors.same_lanes([before, number, value])
        following = []
        for total, predicate in zip(loop.totals, ("slt", "sle"), strict=True):
            test = fn.op(f"icmp {predicate} {kind} {at.name}, {mine.name}")
            tests = vector_type("i1", value.lanes)
            part = fn.op(f"select {tests} {test}, {kind} {size.name}, {kind} {zero.name}")
            name = fn.op(f"add {kind} {total.name}, {part}")
            following.append(Value((name,), ElementType.S64, value.lanes))
        loop.next = following
    return loop.results


def _added(elements: Elements, request: Request, total: Value, group: Affine) -> Steps[Value]:
    """A total and the size of a group, as an s64."""
    found = yield ask(request, 2, (group,))
    size = converted(elements, found, ElementType.S64).values[0]
    name = elements.function.op(f"add i64 {total.name}, {size.name}")
    return Value((name,), ElementType.S64)


def _compared(elements: Elements, predicate: str, value: Value, bound: int) -> Mask:
    right = f"splat (i64 {bound})" if value.lanes else str(bound)
    text = f"icmp {predicate} {vector_type('i64', value.lanes)} {value.name}, {right}"
    return Mask(elements.function.op(text), value.lanes, elements.scopes.level)


def _summed(
    elements: Elements,
    request: Request,
    at: Index,
    group: Affine | None,
    limits: tuple[int, Value, Value] | None,
) -> Steps[Value]:
    """The sum of products; `group` is an index of rhs, `limits` those of a contracted one."""
    instruction = request.instruction
    attributes = instruction.attributes_as(RaggedDot)
    numbers = attributes.dimensions
    left = instruction.operands[0].shape
    type_ = product_type(instruction.shape.element_type)
    start = wide(elements, request, [Element((scalar(0, type_),), 0)])
    with nest(elements, [left.dimensions[d] for d in numbers.lhs_contracting], start) as loops:
        found = []
        for number, index in enumerate(_places(request, at, group, loops.index)):
            found.append((yield ask(request, number, index)))
        loops.next = multiplied(elements, loops.totals[0], *found)
        if limits is not None:
            position, low, high = limits
            place = elements.indices.integer(loops.index[position], ElementType.S64).values[0]
            inside = _between(elements, place, low, high)
            loops.next = kept(elements, inside, loops.next, loops.totals)
    return loops.results[0]


def _places(request: Request, at: Index, group: Affine | None, inner: Index) -> tuple[Index, Index]:
    """The indices of both operands for positions in the contracted dimensions."""
    attributes = request.instruction.attributes_as(RaggedDot)
    numbers = attributes.dimensions
    left, right = (x.shape.rank for x in request.instruction.operands[:2])
    free = iter(at)
    batch = [next(free) for _ in numbers.lhs_batch]
    ours = dict(zip((*numbers.lhs_batch, *numbers.lhs_contracting), (*batch, *inner), strict=True))
    theirs = dict(
        zip((*numbers.rhs_batch, *numbers.rhs_contracting), (*batch, *inner), strict=True)
    )
    if group is not None:
        theirs[attributes.rhs_group[0]] = group
    first = tuple([ours[d] if d in ours else next(free) for d in range(left)])
    return first, tuple([theirs[d] if d in theirs else next(free) for d in range(right)])


def _between(elements: Elements, place: Value, low: Value, high: Value) -> Mask:
    fn = elements.function
    place, low, high = elements.vectors.same_lanes([place, low, high])
    kind, tests = vector_type("i64", place.lanes), vector_type("i1", place.lanes)
    first = fn.op(f"icmp sge {kind} {place.name}, {low.name}")
    last = fn.op(f"icmp slt {kind} {place.name}, {high.name}")
    return Mask(fn.op(f"and {tests} {first}, {last}"), place.lanes, elements.scopes.level)


RULES: Final[dict[Opcode, Callable[[Elements, Request], Rule]]] = {Opcode.RAGGED_DOT: ragged_dot}
"""The rule for ragged products."""
