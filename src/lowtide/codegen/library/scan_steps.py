"""The computation of a scan, element by element: what it does, and whether it can be split."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, final

from lowtide.codegen import elementwise
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, roots_of
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import CallFrame, Element, Mask
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import NO_ATTRIBUTES, Scan
from lowtide.records import dataclass

_SPLITTABLE: Final = (
    Opcode.ADD,
    Opcode.MULTIPLY,
    Opcode.MAXIMUM,
    Opcode.MINIMUM,
    Opcode.AND,
    Opcode.OR,
)


@dataclass(frozen=True, eq=False, slots=True)
class Carry:
    """A carry that one operation combines with `value`, which depends on no carry."""

    opcode: Opcode
    value: Instruction


def split_carries(scan: Instruction) -> tuple[Carry, ...] | None:
    """Return what is added up in each carry, None where the steps are not such sums."""
    body = scan.called_computations[0]
    count = scan.attributes_as(Scan).num_carries
    parameters = body.parameters[len(body.parameters) - count :]
    roots = roots_of(body.root)
    dependent = _dependents(parameters)
    found = []
    for parameter, root in zip(parameters, roots[len(roots) - count :], strict=True):
        if root.opcode not in _SPLITTABLE or parameter not in root.operands:
            return None
        others = [x for x in root.operands if x is not parameter]
        if len(others) != 1 or others[0] in dependent:
            return None
        found.append(Carry(root.opcode, others[0]))
    return tuple(found)


def _dependents(values: Sequence[Instruction]) -> set[Instruction]:
    found = set(values)
    stack = list(values)
    while stack:
        fresh = [x for x in stack.pop().users if x not in found]
        found.update(fresh)
        stack += fresh
    return found


@final
class ScanSteps:
    """Writes steps of a scan; `bound` has its arrays."""

    def __init__(self, elements: Elements, scan: Instruction, bound: Bound) -> None:
        self.elements = elements
        self.scan = scan
        self.bound = bound
        self.body = scan.called_computations[0]
        attributes = scan.attributes_as(Scan)
        self.dimension = attributes.dimension
        self.is_reverse = attributes.is_reverse
        self.inputs = len(scan.operands) - attributes.num_carries
        self.roots = roots_of(self.body.root)
        self.outputs = len(self.roots) - attributes.num_carries

    @property
    def length(self) -> int:
        """The number of steps."""
        shape = self.scan.operands[0].shape if self.inputs else self.bound.results[0].shape
        return shape.dimensions[self.dimension]

    def at(self, others: Index, number: Affine) -> Index:
        """Return the index in inputs and outputs of step `number`, first to last."""
        place = number
        if self.is_reverse:
            place = (number * -1 + (self.length - 1)).within(0, self.length - 1)
        return (*others[: self.dimension], place, *others[self.dimension :])

    def start(self, others: Index, mask: Mask | None, lanes: int) -> list[Value]:
        """Return the carries before the first step."""
        elements = self.elements
        found = [
            elements.at(x, others, self.bound.frame, mask)
            for x in self.scan.operands[self.inputs :]
        ]
        return widened(elements, found, lanes)

    def frame(self, index: Index, carries: Sequence[Value], mask: Mask | None) -> CallFrame:
        """Return what the parameters of the computation stand for in a step."""
        elements = self.elements
        given = [
            elements.all_at(x, index, self.bound.frame, mask)
            for x in self.scan.operands[: self.inputs]
        ]
        given += [Element((x,), elements.scopes.level) for x in carries]
        return CallFrame(elements=dict(zip(self.body.parameters, given, strict=False)))

    def step(
        self, others: Index, number: Affine, carries: Sequence[Value], mask: Mask | None
    ) -> list[Value]:
        """Write one step: its outputs are stored, and the next carries returned."""
        elements = self.elements
        index = self.at(others, number)
        frame = self.frame(index, carries, mask)
        found = [elements.at(x, others, frame) for x in self.roots]
        arrays = self.bound.results[: self.outputs]
        for array, value in zip(arrays, found[: self.outputs], strict=True):
            elements.store(array, index, value, mask)
        lanes = max([x.lanes for x in carries], default=0)
        return widened(elements, found[self.outputs :], lanes)

    def finish(self, others: Index, carries: Sequence[Value], mask: Mask | None) -> None:
        """Store the carries behind the last step."""
        for array, value in zip(self.bound.results[self.outputs :], carries, strict=True):
            self.elements.store(array, others, value, mask)


def combined(
    elements: Elements, carries: Sequence[Carry], a: Sequence[Value], b: Sequence[Value]
) -> list[Value]:
    """Return the carries of two stretches, one behind the other."""
    fn, target = elements.function, elements.target
    write = partial(elementwise.emit_op, fn, target)
    found = []
    for carry, x, y in zip(carries, a, b, strict=True):
        x, y = elements.vectors.same_lanes([x, y])
        found.append(write(carry.opcode, NO_ATTRIBUTES, x.type, [x, y]))
    return found


def added(
    elements: Elements, carries: Sequence[Carry], others: Index, frame: CallFrame
) -> list[Value]:
    """Return what a step adds to each carry, in the type of the carry."""
    found = []
    for carry in carries:
        element = elements.all_at(carry.value, others, frame)
        found.append(converted(elements, element, carry.value.shape.element_type).values[0])
    return found


def widened(elements: Elements, values: Sequence[Value], lanes: int) -> list[Value]:
    """Return values as vectors."""
    if not lanes:
        return list(values)
    return [x if x.lanes else elements.vectors.splat(x) for x in values]
