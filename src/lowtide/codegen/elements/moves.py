"""Elements that a kernel only moves: as integers of their width, they need no conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.elements.operands import Bound
from lowtide.ir import ElementType, Instruction, Opcode

Raw = Mapping[ElementType, ElementType]
"""For types of elements, the integers that are moved in their place."""

_MOVES: Final = frozenset(
    {
        Opcode.ADD_DEPENDENCY,
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CALL,
        Opcode.CONCATENATE,
        Opcode.CONSTANT,
        Opcode.COPY,
        Opcode.DOMAIN,
        Opcode.DYNAMIC_SLICE,
        Opcode.DYNAMIC_UPDATE_SLICE,
        Opcode.FUSION,
        Opcode.GATHER,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.OPTIMIZATION_BARRIER,
        Opcode.PAD,
        Opcode.PARAMETER,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
        Opcode.TUPLE,
    }
)
"""Operations that do not look at elements, but at indices."""

_BY_BITS: Final = {8: ElementType.U8, 16: ElementType.U16, 64: ElementType.U64}


def moved_types(members: Sequence[Instruction]) -> Raw:
    """Return the types of elements that the members of a kernel move and do nothing else with."""
    found: dict[ElementType, ElementType] = {}
    computed: set[ElementType] = set()
    for member in members:
        for x in (member, *member.operands):
            type_ = x.shape.element_type
            raw = _BY_BITS.get(type_.bits)
            if raw is None or type_.is_integer or type_ in (ElementType.F64, raw):
                continue
            found[type_] = raw
            if member.opcode not in _MOVES:
                computed.add(type_)
    return {type_: raw for type_, raw in found.items() if type_ not in computed}


def retyped(bound: Bound, raw: Raw) -> Bound:
    """Return the same arrays, seen as those of the integers that are moved."""
    if not raw:
        return bound
    frame = bound.frame
    arrays = {x: _retyped(array, raw) for x, array in frame.arrays.items()}
    results = tuple([_retyped(x, raw) for x in bound.results])
    return replace(bound, frame=replace(frame, arrays=arrays), results=results)


def _retyped(array: Array, raw: Raw) -> Array:
    type_ = raw.get(array.shape.element_type)
    return array if type_ is None else replace(array, shape=array.shape.with_element_type(type_))
