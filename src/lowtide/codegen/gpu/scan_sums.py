"""Sums of stretches of a scan, and the place in shared memory where threads meet to add them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lowtide.codegen.elements.operands import roots_of
from lowtide.codegen.elements.values import CallFrame, Element
from lowtide.codegen.gpu.threads import SharedArray, barrier
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.library.scan_steps import Carry, ScanSteps, added, combined, split_carries
from lowtide.codegen.value import Value, register_type
from lowtide.ir import Instruction
from lowtide.ir.attributes import Scan
from lowtide.llvm.function import Function, Integer
from lowtide.records import dataclass


class ScanSums(Protocol):
    """What stretches of steps add to the carries."""

    def at(self, steps: ScanSteps, others: Index, number: Affine) -> list[Value]:
        """Return what one step adds."""

    def combined(
        self, steps: ScanSteps, others: Index, a: Sequence[Value], b: Sequence[Value]
    ) -> list[Value]:
        """Return what two stretches add, the second behind the first."""


@dataclass(frozen=True, eq=False, slots=True)
class _Monoids:
    """Carries of which each is combined by one operation with what depends on no carry."""

    carries: tuple[Carry, ...]

    def at(self, steps: ScanSteps, others: Index, number: Affine) -> list[Value]:
        frame = steps.frame(steps.at(others, number), (), None)
        return added(steps.elements, self.carries, others, frame)

    def combined(
        self, steps: ScanSteps, others: Index, a: Sequence[Value], b: Sequence[Value]
    ) -> list[Value]:
        return combined(steps.elements, self.carries, a, b)


class _Associative:
    """A computation of which the inputs of a step are what it adds."""

    def at(self, steps: ScanSteps, others: Index, number: Affine) -> list[Value]:
        index = steps.at(others, number)
        inputs = steps.scan.operands[: steps.inputs]
        return [steps.elements.at(x, index, steps.bound.frame) for x in inputs]

    def combined(
        self, steps: ScanSteps, others: Index, a: Sequence[Value], b: Sequence[Value]
    ) -> list[Value]:
        level = steps.elements.scopes.level
        given = [Element((x,), level) for x in (*b, *a)]
        frame = CallFrame(elements=dict(zip(steps.body.parameters, given, strict=True)))
        return [steps.elements.at(x, others, frame) for x in steps.roots[steps.outputs :]]


def scan_sums(scan: Instruction) -> ScanSums | None:
    """Return how stretches of a scan are added up, None where they cannot be."""
    found = split_carries(scan)
    if found is not None:
        return _Monoids(found)
    attributes = scan.attributes_as(Scan)
    body, count = scan.called_computations[0], attributes.num_carries
    types = [x.shape.element_type for x in body.parameters]
    roots = [x.shape.element_type for x in roots_of(body.root)]
    is_alike = types[:count] == types[count:] == roots[len(roots) - count :]
    return _Associative() if attributes.is_associative and is_alike else None


class SharedValues:
    """Some values of each thread of a block, in shared memory."""

    def __init__(self, values: Sequence[Value], count: int) -> None:
        self.values = list(values)
        names = [(register_type(x.type), x) for x in values for _ in x.names]
        self.types = [type_ for type_, _ in names]
        self.arrays = [
            SharedArray(f"scanned{i}", "i8" if type_ == "i1" else type_, count)
            for i, type_ in enumerate(self.types)
        ]

    @property
    def definitions(self) -> list[str]:
        """The lines that the module needs."""
        return [x.definition for x in self.arrays]

    def write(self, fn: Function, place: Integer, values: Sequence[Value]) -> None:
        """Store the values of a thread; all others have read what was there, and see them then."""
        barrier(fn)
        names = [name for x in values for name in x.names]
        for array, type_, name in zip(self.arrays, self.types, names, strict=True):
            array.store(fn, place, fn.op(f"zext i1 {name} to i8") if type_ == "i1" else name)
        barrier(fn)

    def read(self, fn: Function, place: Integer) -> list[Value]:
        """Load the values of a thread."""
        found = []
        for array, type_ in zip(self.arrays, self.types, strict=True):
            name = array.load(fn, place)
            found.append(fn.op(f"trunc i8 {name} to i1") if type_ == "i1" else name)
        left = iter(found)
        return [Value(tuple([next(left) for _ in x.names]), x.type) for x in self.values]

    def chosen(
        self, fn: Function, condition: str, a: Sequence[Value], b: Sequence[Value]
    ) -> list[Value]:
        """Return some values where a condition holds, else others."""
        found = []
        for x, y in zip(a, b, strict=True):
            type_ = register_type(x.type)
            pairs = zip(x.names, y.names, strict=True)
            names = [fn.select(condition, type_, one, other) for one, other in pairs]
            found.append(Value(tuple(names), x.type))
        return found
