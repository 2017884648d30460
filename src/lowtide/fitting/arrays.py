"""The arrays of a module, each once: what only passes an array on has that array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.traversal import post_order
from lowtide.records import dataclass

_PASSING = frozenset({Opcode.TUPLE, Opcode.OPTIMIZATION_BARRIER})
_CALLING = frozenset({Opcode.CALL, Opcode.FUSION})


@dataclass(slots=True)
class ModuleArrays:
    """The number of the array at each leaf of each instruction, depth first.

    Arrays that control flow makes one, such as the state of a loop before, in and after it, have
    one number: that of `find`. `nodes` are the instructions that make arrays, operands first.
    """

    numbers: dict[Instruction, tuple[int, ...]] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    nodes: list[Instruction] = field(default_factory=list)
    _parent: list[int] = field(default_factory=list)

    def find(self, number: int) -> int:
        """Return the number that stands for an array and for all that are one with it."""
        parent = self._parent
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def of(self, x: Instruction) -> list[int]:
        """Return the arrays of the leaves of an instruction."""
        return [self.find(number) for number in self.numbers[x]]

    def operands(self, x: Instruction) -> list[int]:
        """Return the arrays of the leaves of all operands of an instruction, in order."""
        return [number for operand in x.operands for number in self.of(operand)]

    def new(self, shape: Shape) -> tuple[int, ...]:
        """Return the numbers of new arrays, one for each leaf of a shape."""
        first = len(self.shapes)
        for _, leaf in shape.leaves():
            self._parent.append(len(self.shapes))
            self.shapes.append(leaf)
        return tuple(range(first, len(self.shapes)))

    def unite(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Make arrays one, pair by pair."""
        for a, b in zip(left, right, strict=True):
            self._parent[self.find(b)] = self.find(a)


def arrays_of_entry(entry: Computation) -> ModuleArrays:
    """Return the arrays of a computation and of all loops, branches and calls below it."""
    arrays = ModuleArrays()
    todo = [entry]
    for parameter in entry.parameters:
        arrays.numbers[parameter] = arrays.new(parameter.shape)
    filled = {entry}
    while todo:
        for callee in _fill(arrays, todo.pop()):
            if callee not in filled:
                filled.add(callee)
                todo.append(callee)
    for computation in filled:
        for x in computation.instructions.values():
            _unite_results(arrays, x)
    return arrays


def _fill(arrays: ModuleArrays, computation: Computation) -> Iterator[Computation]:
    """Number the arrays of a computation; yield those that it runs, with their parameters."""
    for x in post_order(computation):
        if x.opcode is Opcode.PARAMETER:
            continue
        given = [arrays.numbers[operand] for operand in x.operands]
        if x.opcode in _PASSING:
            arrays.numbers[x] = tuple([number for one in given for number in one])
        elif x.opcode is Opcode.GET_TUPLE_ELEMENT:
            index = x.attributes_as(GetTupleElement).index
            before = x.operands[0].shape.tuple_shapes[:index]
            first = sum([len(list(shape.leaves())) for shape in before])
            arrays.numbers[x] = given[0][first : first + len(list(x.shape.leaves()))]
        elif x.opcode is Opcode.WHILE:
            arrays.numbers[x] = given[0]
        else:
            arrays.numbers[x] = arrays.new(x.shape)
            arrays.nodes.append(x)
        yield from _enter(arrays, x, given)


def _enter(
    arrays: ModuleArrays, x: Instruction, given: Sequence[tuple[int, ...]]
) -> Iterator[Computation]:
    """Yield what an instruction runs on whole arrays, once its parameters have them."""
    if x.opcode is Opcode.WHILE:
        taken = [(callee, [given[0]]) for callee in x.called_computations]
    elif x.opcode is Opcode.CONDITIONAL:
        taken = [
            (callee, [one]) for callee, one in zip(x.called_computations, given[1:], strict=True)
        ]
    elif x.opcode in _CALLING:
        taken = [(x.called_computations[0], list(given))]
    else:
        return
    for callee, operands in taken:
        for parameter, one in zip(callee.parameters, operands, strict=True):
            if parameter in arrays.numbers:
                arrays.unite(arrays.numbers[parameter], one)
            else:
                arrays.numbers[parameter] = one
        yield callee


def _unite_results(arrays: ModuleArrays, x: Instruction) -> None:
    """Make the results of what an instruction runs those of the instruction."""
    runs: Sequence[Computation] = ()
    if x.opcode is Opcode.WHILE:
        runs = x.called_computations[1:]
    elif x.opcode is Opcode.CONDITIONAL:
        runs = x.called_computations
    elif x.opcode in _CALLING:
        runs = x.called_computations[:1]
    for callee in runs:
        arrays.unite(arrays.numbers[x], arrays.numbers[callee.root])
