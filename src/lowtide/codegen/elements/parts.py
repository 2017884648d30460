"""Parts that rules of elements have in common: requests, conversions, tests of indices, choices."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from lowtide.codegen import elementwise, indexing
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Element, Mask, Request
from lowtide.codegen.indexing import Index
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Instruction, Opcode, Shape
from lowtide.ir.attributes import NO_ATTRIBUTES
from lowtide.ir.errors import UnsupportedOpError, unsupported


def no_rule(instruction: Instruction) -> UnsupportedOpError:
    """The error for an operation that no kernel computes."""
    reason = "there is no native code for it; the evaluator runs it (lowtide run --reference)"
    return unsupported(instruction, reason)


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


def converted(elements: Elements, element: Element, type_: ElementType) -> Element:
    """Return an element converted to another type."""
    (value,) = element.values
    if value.type is type_:
        return element
    result: Value = elements.scopes.once(
        ("convert", value, type_),
        element.level,
        lambda: elementwise.emit_op(
            elements.function, elements.target, Opcode.CONVERT, NO_ATTRIBUTES, type_, [value]
        ),
    )
    return Element((result,), elements.scopes.placed(element.level))


def reshaped(
    elements: Elements, index: Index, result: tuple[int, ...], sizes: tuple[int, ...]
) -> Index:
    """Return the index in an array of `sizes` of the element at an index of its reshape.

    What is left for the first dimension needs no division: there are equally many elements.
    """
    rest = indexing.linear(index, result)
    found = []
    outermost = next((d for d, size in enumerate(sizes) if size != 1), 0)
    for size in reversed(sizes[outermost + 1 :]):
        rest, position = elements.indices.split(rest, size)
        found.append(position)
    if sizes:
        found.append(rest.within(0, max(0, sizes[outermost] - 1)))
    return (*[indexing.ZERO] * outermost, *reversed(found))


def bitcast_index(
    elements: Elements, index: Sequence[indexing.Affine], given: Shape, wanted: Shape
) -> tuple[indexing.Affine, ...]:
    """Return the index, in an array of shape `wanted`, of what lies at an index of `given`."""
    theirs, ours = wanted.physical_order, given.physical_order
    places = reshaped(
        elements,
        tuple([index[d] for d in ours]),
        tuple([given.dimensions[d] for d in ours]),
        tuple([wanted.dimensions[d] for d in theirs]),
    )
    found = dict(zip(theirs, places, strict=True))
    return tuple([found[d] for d in range(wanted.rank)])


def within(elements: Elements, index: indexing.Affine, low: int, high: int) -> Mask | bool | None:
    """Return where low <= index < high: a mask, None for everywhere, False for nowhere."""
    if index.low >= low and index.high < high:
        return None
    if index.high < low or index.low >= high or low >= high:
        return False
    elements.indices.fix(index)
    elements.indices.tests.append((index, low, high))
    found: Mask = elements.scopes.once(
        ("within", index, low, high), index.level, lambda: _compared(elements, index, low, high)
    )
    return found


def _compared(elements: Elements, index: indexing.Affine, low: int, high: int) -> Mask:
    """One unsigned comparison: what is less than low is large after the subtraction."""
    fn = elements.function
    shifted = index + -low
    lanes = elements.lanes
    limit = 1 << 31
    if elements.is_one_for_all(shifted, high - low):
        return Mask(fn.compare("ult", elements.indices.scalar(shifted), high - low), 0, index.level)
    if index.varies and max(-shifted.low, shifted.high, high - low) < limit:
        vector = elements.indices.narrow_vector(shifted)
        name = fn.op(f"icmp ult <{lanes} x i32> {vector}, splat (i32 {high - low})")
        return Mask(name, lanes, index.level)
    if index.varies:
        vector = elements.indices.vector(shifted)
        name = fn.op(f"icmp ult <{lanes} x i64> {vector}, splat (i64 {high - low})")
        return Mask(name, lanes, index.level)
    return Mask(fn.compare("ult", elements.indices.scalar(shifted), high - low), 0, index.level)


def chosen(elements: Elements, mask: Mask, yes: Element, no: Element) -> Element:
    """Return the elements of `yes` where a mask holds, else those of `no`."""
    level = max(mask.level, yes.level, no.level)
    place = elements.scopes.placed(level)
    with elements.scopes.at_level(place):
        values = [
            _selected(elements, mask, a, b, level)
            for a, b in zip(yes.values, no.values, strict=True)
        ]
    return Element(tuple(values), place)


def _selected(elements: Elements, mask: Mask, a: Value, b: Value, level: int) -> Value:
    fn = elements.function
    a, b = elements.vectors.same_lanes([a, b], level)
    if mask.lanes and not a.lanes:
        a, b = elements.vectors.splat(a, level), elements.vectors.splat(b, level)
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
    quotient, remainder = elements.indices.split(index + shift * divisor, divisor)
    return quotient + -shift, remainder
