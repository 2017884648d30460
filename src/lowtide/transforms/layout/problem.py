"""The problem that layout assignment solves: places, what reads them, and the bytes that move.

A node is a place (see `places.py`) of an array, and its label the order of its dimensions. A unit
is an operation, or one operand of a tuple or call. It costs the bytes that have to be transposed
before or behind it, and what its kernel loses, times how often it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final, NamedTuple, final

from lowtide.ir import Instruction, Module, Opcode, ShapeIndex
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.opcode import CONTROL_FLOW
from lowtide.records import dataclass
from lowtide.transforms.layout.forms import form_of, rule_of
from lowtide.transforms.layout.orders import Order, is_movable, minor, order_of, same_bytes
from lowtide.transforms.layout.places import Key, LayoutPlaces, passed
from lowtide.transforms.layout.preferences import convolved, penalty
from lowtide.transforms.simplify.shapes import is_ascending


@dataclass(eq=False, slots=True)
class LayoutNode:
    """A place of an array. `present` is its order in the module, `label` the one that it gets."""

    sizes: tuple[int, ...]
    nbytes: int
    present: Order
    label: Order
    pinned: bool = False
    units: list[LayoutUnit] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class LayoutUnit:
    """An operation: nodes that it reads, by operand, and the one that it makes.

    For operands of tuples and calls, `operands` has the one of that `number`, and `target` is the
    node that gets it as it is; so it is for the result of the program, with `RESULT`.
    """

    instruction: Instruction
    times: float
    operands: tuple[LayoutNode | None, ...]
    result: LayoutNode | None = None
    target: LayoutNode | None = None
    number: int = 0
    nodes: tuple[LayoutNode, ...] = ()
    """The nodes on whose labels the cost depends."""
    cost: float = 0.0
    """The cost where all of them are as they are in the module."""
    known: tuple[list[Order], Needs] | None = None
    """The labels for which the needs were worked out last, and these."""


RESULT: Final = -1


class Needs(NamedTuple):
    """The order that each operand is read in, None for those that do not matter, and the result's.

    `cost` are the bytes that are moved for them or lost by the kernel, times how often it runs.
    """

    operands: tuple[Order | None, ...]
    result: Order | None
    cost: float = 0.0


@final
class LayoutProblem:
    """The nodes and units of a module."""

    def __init__(self, module: Module) -> None:
        self.places = LayoutPlaces(module)
        self.nodes: list[LayoutNode] = []
        self.units: list[LayoutUnit] = []
        self._node_of: dict[Key, LayoutNode] = {}
        for computation, times in self.places.computations.items():
            for x in computation.instructions.values():
                self.units += self._units_of(x, times)
        self.units += self._result(module.entry.root)
        for unit in self.units:
            found = (*unit.operands, unit.result, unit.target)
            unit.nodes = tuple(dict.fromkeys([x for x in found if x is not None]))
            for node in unit.nodes:
                node.units.append(unit)
            unit.cost = 0.0 if _is_quiet(unit) else needs(unit).cost

    def node(self, x: Instruction, index: ShapeIndex = ()) -> LayoutNode | None:
        """Return the node of a value, or of an element of a tuple; None where it has no order."""
        key = self.places.of(x, index)
        found = self._node_of.get(key)
        if found is not None:
            return found
        shape = x.shape.at(index)
        if not shape.is_array or shape.rank < 2:
            return None
        present = order_of(shape)
        pinned = key in self.places.pinned or not is_movable(shape)
        node = LayoutNode(shape.dimensions, shape.nbytes, present, present, pinned)
        self._node_of[key] = node
        self.nodes.append(node)
        return node

    def take_apart(self) -> None:
        """Part nodes from units, so that they go without a search for cycles."""
        for node in self.nodes:
            node.units = []

    def _units_of(self, x: Instruction, times: float) -> Iterator[LayoutUnit]:
        if x.opcode is Opcode.TUPLE:
            for i in range(len(x.operands)):
                yield from self._handed_over(x, times, i, x, (i,))
        elif x.opcode in CONTROL_FLOW:
            for i, callee in passed(x):
                if callee in self.places.computations:
                    parameter = callee.parameters[i if x.opcode is Opcode.CALL else 0]
                    yield from self._handed_over(x, times, i, parameter, ())
        elif x.opcode is Opcode.GET_TUPLE_ELEMENT:
            result = self.node(x)
            if result is not None:
                index = x.attributes_as(GetTupleElement).index
                yield LayoutUnit(x, times, (self.node(x.operands[0], (index,)),), result)
        elif x.shape.is_array and x.opcode is not Opcode.PARAMETER:
            unit = LayoutUnit(x, times, tuple([self.node(y) for y in x.operands]), self.node(x))
            if unit.result is not None and (rule_of(x) is None or x.has_control_edges):
                unit.result.pinned = True
            yield unit
        elif x.shape.is_tuple and x.opcode not in _ANY_ORDER:
            yield LayoutUnit(x, times, tuple([self.node(y) for y in x.operands]))

    def _result(self, root: Instruction) -> Iterator[LayoutUnit]:
        """Yield the unit that hands an array over to who runs the program."""
        node = self.node(root)
        if node is not None:
            target = LayoutNode(node.sizes, node.nbytes, node.present, node.present, pinned=True)
            self.nodes.append(target)
            yield LayoutUnit(root, 1.0, (node,), None, target, RESULT)

    def _handed_over(
        self, x: Instruction, times: float, i: int, to: Instruction, index: ShapeIndex
    ) -> Iterator[LayoutUnit]:
        """Yield the unit of an operand that becomes the value of a place, if it is an array."""
        if x.operands[i].shape.is_array:
            node, target = self.node(x.operands[i]), self.node(to, index)
            if node is not None and target is not None:
                yield LayoutUnit(x, times, (node,), None, target, i)


_ANY_ORDER: Final = frozenset({Opcode.PARAMETER, Opcode.REDUCE, Opcode.REDUCE_WINDOW, Opcode.SORT})
"""What may return several arrays and reads operands in any order. A fusion, a foreign function and
the like say in which they read theirs."""


def needs(unit: LayoutUnit) -> Needs:
    """Return the orders in which an operation reads its operands and makes its result."""
    labels = [node.label for node in unit.nodes]
    if unit.known is None or unit.known[0] != labels:
        found = _needs(unit)
        unit.known = labels, found._replace(cost=_cost(unit, found))
    return unit.known[1]


def _needs(unit: LayoutUnit) -> Needs:
    """Work out the needs; the cost is what the kernel loses only."""
    x = unit.instruction
    if unit.target is not None:
        return Needs((unit.target.label,), None)
    if x.opcode is Opcode.GET_TUPLE_ELEMENT:
        node = unit.operands[0]
        return Needs((None,), None if node is None else node.label)
    if not x.shape.is_array:
        return _as_present(unit)
    orders = [
        order_of(y.shape) if node is None else node.label
        for y, node in zip(x.operands, unit.operands, strict=True)
    ]
    label = order_of(x.shape) if unit.result is None else unit.result.label
    if x.opcode is Opcode.CONVOLUTION:
        *orders, label = convolved(x, (*orders, label))
    form = None if x.has_control_edges else form_of(x, orders, label)
    if form is None:
        return _as_present(unit)
    return Needs(form.orders, form.order, penalty(x, form.orders, form.order))


def _as_present(unit: LayoutUnit) -> Needs:
    """The needs of an operation that reads and makes arrays in the orders that they have."""
    present = [None if node is None else node.present for node in unit.operands]
    return Needs(tuple(present), None if unit.result is None else unit.result.present)


def _is_quiet(unit: LayoutUnit) -> bool:
    """Whether an operation clearly costs nothing: everything around it is row major."""
    if unit.instruction.opcode in (Opcode.TRANSPOSE, Opcode.CONVOLUTION):
        return False
    return all(is_ascending(node.present) for node in unit.nodes)


def is_moved(unit: LayoutUnit) -> bool:
    """Whether anything around an operation gets another order than it has."""
    return [node.label for node in unit.nodes] != [node.present for node in unit.nodes]


def cost(unit: LayoutUnit) -> float:
    """Return the bytes that an operation moves for its layouts, and those that its kernel loses."""
    return needs(unit).cost if is_moved(unit) else unit.cost


def _cost(unit: LayoutUnit, wanted: Needs) -> float:
    """Return what an operation costs that has such needs.

    A transpose between loops, or before a dot, is done as one of them reads or writes; where
    there is neither, it is a kernel of its own, and its bytes count twice.
    """
    moved = wanted.cost
    times = 2 if _stores(unit) else 1
    for node, order in zip(unit.operands, wanted.operands, strict=True):
        if node is not None and order is not None:
            moved += times * _moved(node, order)
    if unit.result is not None and wanted.result is not None:
        found = _moved(unit.result, wanted.result)
        alone = found and unit.instruction.opcode in _NO_LOOPS
        alone = alone and any(_stores(other) for other in unit.result.units[:_MOST_READERS])
        moved += 2 * found if alone else found
    return moved * unit.times


_NO_LOOPS: Final = frozenset({Opcode.CONVOLUTION, Opcode.DOT})
_MOST_READERS: Final = 32


def _stores(unit: LayoutUnit) -> bool:
    """Whether operands have to be arrays in memory: for a tuple, a call, or what has no rule."""
    return unit.target is not None or rule_of(unit.instruction) is None


def _moved(node: LayoutNode, order: Order) -> int:
    """Return the bytes that move between the label of a node and an order.

    They count for less where rows along the fastest dimension stay together.
    """
    a, b, sizes = node.label, order, node.sizes
    if same_bytes(a, b, sizes):
        return 0
    return node.nbytes * 3 // 4 if minor(a, sizes) == minor(b, sizes) else node.nbytes


def total(units: list[LayoutUnit]) -> float:
    """Return what units cost with the labels that their nodes have now."""
    return sum([cost(unit) for unit in units])
