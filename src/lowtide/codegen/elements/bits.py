"""Elements whose bits are read as another type: split, joined, or as they are."""

from __future__ import annotations

from typing import Final

from lowtide.codegen import elementwise, indexing
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.values import Element, Request, Rule
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.ir import ElementType, Opcode
from lowtide.ir.attributes import NO_ATTRIBUTES

_UNSIGNED: Final = {
    2: ElementType.U2,
    4: ElementType.U4,
    8: ElementType.U8,
    16: ElementType.U16,
    32: ElementType.U32,
    64: ElementType.U64,
}


def bitcast_convert(elements: Elements, request: Request) -> Rule:
    """Return the bits of elements as another type.

    A wider element is joined of those along the last dimension of the operand, the lowest bits
    first; a narrower one is a part of an element.
    """
    instruction = request.instruction
    (operand,) = instruction.operands
    type_, given = instruction.shape.element_type, operand.shape.element_type
    if type_.bits == given.bits:
        found = yield Request(operand, request.at, request.mask, request.frame)
        return recast(elements, found, type_)
    if type_.bits < given.bits:
        *outer, part = request.at
        found = yield Request(operand, tuple(outer), request.mask, request.frame)
        return recast(elements, _part(elements, found, part, type_), type_)
    parts: list[Element] = []
    for number in range(type_.bits // given.bits):
        at = (*request.at, indexing.constant(number))
        parts.append((yield Request(operand, at, request.mask, request.frame)))
    return recast(elements, _joined(elements, parts, type_), type_)


def recast(elements: Elements, element: Element, type_: ElementType) -> Element:
    """Return the bits of an element as a type of the same width."""
    (value,) = element.values
    if value.type is type_:
        return element
    result: Value = elements.scopes.once(
        ("recast", value, type_),
        element.level,
        lambda: elementwise.emit_op(
            elements.function,
            elements.target,
            Opcode.BITCAST_CONVERT,
            NO_ATTRIBUTES,
            type_,
            [value],
        ),
    )
    return Element((result,), elements.scopes.placed(element.level))


def _part(elements: Elements, element: Element, number: Affine, type_: ElementType) -> Element:
    """Part `number` of the bits of an element, as an unsigned integer."""
    whole = recast(elements, element, _UNSIGNED[element.values[0].type.bits])
    level = max(whole.level, number.level)
    elements.indices.fix(number)
    place = elements.scopes.placed(level)
    with elements.scopes.at_level(place):
        wide = _UNSIGNED[whole.values[0].type.bits]
        shift = elements.indices.integer(number * type_.bits, ElementType.S64)
        count = _resized(elements, shift.values[0], wide)
        value, count = elements.vectors.same_lanes([whole.values[0], count], level)
        fn = elements.function
        name = fn.op(f"lshr {value.llvm_type} {value.name}, {count.name}")
        part = _resized(elements, Value((name,), wide, value.lanes), _UNSIGNED[type_.bits])
    return Element((part,), place)


def _joined(elements: Elements, parts: list[Element], type_: ElementType) -> Element:
    """Elements as the bits of one unsigned integer, the first lowest."""
    level = max([x.level for x in parts])
    place = elements.scopes.placed(level)
    wide = _UNSIGNED[type_.bits]
    with elements.scopes.at_level(place):
        fn = elements.function
        pieces = [recast(elements, x, _UNSIGNED[x.values[0].type.bits]).values[0] for x in parts]
        bits = pieces[0].type.bits
        values = elements.vectors.same_lanes([_resized(elements, x, wide) for x in pieces], level)
        total = values[0]
        for number, value in enumerate(values[1:], 1):
            shift = str(number * bits)
            amount = f"splat (i{max(8, wide.bits)} {shift})" if value.lanes else shift
            moved = fn.op(f"shl {value.llvm_type} {value.name}, {amount}")
            name = fn.op(f"or {value.llvm_type} {total.name}, {moved}")
            total = Value((name,), wide, value.lanes)
    return Element((total,), place)


def _resized(elements: Elements, value: Value, type_: ElementType) -> Value:
    """An unsigned integer with its low bits kept, or zeros above."""
    if value.type is type_:
        return value
    fn, target = elements.function, elements.target
    return elementwise.emit_op(fn, target, Opcode.CONVERT, NO_ATTRIBUTES, type_, [value])
