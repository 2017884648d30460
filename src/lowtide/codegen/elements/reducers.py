"""Reducers: computations that combine an accumulator with a value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from lowtide.codegen import elementwise
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.literals import scalar
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import Element
from lowtide.codegen.value import Value
from lowtide.ir import Computation, ElementType, Opcode
from lowtide.ir.attributes import NO_ATTRIBUTES
from lowtide.records import dataclass

_MONOIDS: Final = (
    Opcode.ADD,
    Opcode.MULTIPLY,
    Opcode.MAXIMUM,
    Opcode.MINIMUM,
    Opcode.AND,
    Opcode.OR,
    Opcode.XOR,
)


def monoid_of(computation: Computation) -> Opcode | None:
    """Return the operation of a computation which applies one, in any order, to two scalars."""
    root = computation.root
    if root.opcode not in _MONOIDS or len(computation.parameters) != 2:
        return None
    if any(x.shape is not root.shape for x in computation.parameters):
        return None
    return root.opcode if set(root.operands) == set(computation.parameters) else None


def accumulator_type(type_: ElementType, opcode: Opcode | None) -> ElementType:
    """Return the type to add up in: f32 for narrower floating point types, else the same."""
    narrow = type_.is_floating and type_.bits < 32 and opcode is not None
    return ElementType.F32 if narrow else type_


@lru_cache(maxsize=256)
def neutral(opcode: Opcode, type_: ElementType) -> Value:
    """Return the element that changes nothing."""
    if opcode in (Opcode.ADD, Opcode.OR, Opcode.XOR):
        return scalar(-0.0 if type_.is_floating else 0, type_)
    if opcode is Opcode.MULTIPLY:
        return scalar(1, type_)
    if opcode is Opcode.AND:
        return scalar(True if type_ is ElementType.PRED else -1, type_)
    return scalar(_end(type_, least=opcode is Opcode.MAXIMUM), type_)


def _end(type_: ElementType, *, least: bool) -> float | int | bool:
    if type_ is ElementType.PRED:
        return not least
    if type_.is_floating:
        return float("-inf") if least else float("inf")
    bits = type_.bits
    if type_.is_signed:
        return -(1 << bits - 1) if least else (1 << bits - 1) - 1
    return 0 if least else (1 << bits) - 1


@dataclass(frozen=True, slots=True)
class Reducer:
    """A reducer of one or several values at once.

    `types` are those of the accumulators. `opcode` is that of a monoid, None for any computation.
    """

    computation: Computation
    types: tuple[ElementType, ...]
    opcode: Opcode | None

    @classmethod
    def of(cls, computation: Computation) -> Reducer:
        """Return the reducer that a computation is."""
        opcode = monoid_of(computation)
        count = len(computation.parameters) // 2
        types = [x.shape.element_type for x in computation.parameters[:count]]
        return cls(computation, tuple([accumulator_type(x, opcode) for x in types]), opcode)

    def taken(self, elements: Elements, values: Sequence[Element]) -> list[Element]:
        """Return elements in the types of the accumulators."""
        return [converted(elements, x, t) for x, t in zip(values, self.types, strict=True)]

    def combined(
        self, elements: Elements, totals: Sequence[Value], values: Sequence[Value]
    ) -> list[Value]:
        """Return the accumulators after values, all of the types of the accumulators."""
        level = elements.scopes.level
        pairs = [
            elements.vectors.same_lanes([a, b], level) for a, b in zip(totals, values, strict=True)
        ]
        if self.opcode is not None:
            ((a, b),) = pairs
            fn, target = elements.function, elements.target
            return [elementwise.emit_op(fn, target, self.opcode, NO_ATTRIBUTES, a.type, [a, b])]
        given = [Element((x,), level) for pair in zip(*pairs, strict=True) for x in pair]
        return list(elements.apply(self.computation, given).values)

    def finished(self, elements: Elements, totals: Sequence[Value]) -> list[Value]:
        """Return the accumulators in the types of the result."""
        results = [x.shape.element_type for x in self.computation.parameters[: len(totals)]]
        fn, target = elements.function, elements.target
        return [
            x
            if x.type is type_
            else elementwise.emit_op(fn, target, Opcode.CONVERT, NO_ATTRIBUTES, type_, [x])
            for x, type_ in zip(totals, results, strict=True)
        ]


def carried(values: Sequence[Value]) -> list[tuple[str, str]]:
    """Return values as a loop carries them: pairs of LLVM type and name."""
    return [(x.llvm_type, name) for x in values for name in x.names]


def renamed(values: Sequence[Value], names: Sequence[str]) -> list[Value]:
    """Return values of the same types under other names, in the order of `carried`."""
    left = iter(names)
    return [Value(tuple([next(left) for _ in x.names]), x.type, x.lanes) for x in values]
