"""Places of values: arrays, and elements of tuples that several instructions share.

The tuple of a loop is one for its start, its bodies and its result, so an element of it has one
layout everywhere. Such a place is held by many keys (instruction, index).
"""

from __future__ import annotations

from collections import Counter
from typing import final

from lowtide.ir import Computation, Instruction, Module, Opcode, Shape, ShapeIndex
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.opcode import CONTROL_FLOW
from lowtide.ops.backend_config import known_trip_count

Key = tuple[Instruction, ShapeIndex]


def computation_runs(module: Module) -> dict[Computation, float]:
    """Return the computations that run by themselves, callers first, with how often each does.

    A loop of unknown trip count counts as one step, a branch as taken. Computations that are also
    called by other instructions, such as reductions, are left out.
    """
    callers: Counter[Computation] = Counter()
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.called_computations:
                callers.update(list(dict.fromkeys(x.called_computations)))
    times: dict[Computation, float] = {module.entry: 1.0}
    missing: Counter[Computation] = Counter()
    waiting = [module.entry]
    for computation in waiting:
        for x in computation.instructions.values():
            if x.opcode not in CONTROL_FLOW:
                continue
            for callee in dict.fromkeys(x.called_computations):
                missing[callee] += 1
                times[callee] = times.get(callee, 0.0) + times[computation] * steps(x)
                if missing[callee] == callers[callee]:
                    waiting.append(callee)
    return {x: times[x] for x in waiting}


def steps(x: Instruction) -> float:
    """Return how often a call runs its computations: the known trip count of a loop, else 1."""
    if x.opcode is not Opcode.WHILE:
        return 1.0
    count = known_trip_count(x)
    return 1.0 if count is None else float(count)


@final
class LayoutPlaces:
    """The places of a module. `pinned` has those whose layout is given, with their shape.

    An array that is the result of the program is not among them: there may be a copy behind it.
    """

    def __init__(self, module: Module) -> None:
        self.computations = computation_runs(module)
        self._parent: dict[Key, Key] = {}
        self.pinned: dict[Key, Shape] = {}
        self.is_consistent = True
        """Whether no place has two shapes."""
        pins: list[Instruction] = []
        for computation in self.computations:
            for x in computation.instructions.values():
                if not self._join_places(x):
                    pins.append(x)
                    pins += [y for y in x.operands if not y.shape.is_array]
        pins += module.entry.parameters
        if not module.entry.root.shape.is_array:
            pins.append(module.entry.root)
        for x in pins:
            for index, shape in x.shape.leaves():
                known = self.pinned.setdefault(self.of(x, index), shape)
                self.is_consistent &= known is shape
        self._check_shapes()

    def _check_shapes(self) -> None:
        shapes = dict(self.pinned)
        for x, index in list(self._parent):
            shape = x.shape.at(index)
            self.is_consistent &= shapes.setdefault(self.of(x, index), shape) is shape

    def of(self, x: Instruction, index: ShapeIndex = ()) -> Key:
        """Return the key that stands for the place of a value, or of an element of a tuple."""
        key = (x, index)
        root = key
        while (above := self._parent.get(root, root)) != root:
            root = above
        while (above := self._parent.get(key, key)) != root:
            self._parent[key] = root
            key = above
        return root

    def _join(self, x: Instruction, at: ShapeIndex, y: Instruction, below: ShapeIndex) -> None:
        """Let element `at` of `x` be the same place as `below` of `y`, with all in there."""
        for index, _ in x.shape.at(at).leaves():
            a, b = self.of(x, (*at, *index)), self.of(y, (*below, *index))
            if a != b:
                self._parent[a] = b

    def _join_places(self, x: Instruction) -> bool:
        """Join what an instruction leaves where it is; False where it has layouts of its own."""
        if x.opcode in CONTROL_FLOW:
            return self._join_calls(x)
        if x.opcode is Opcode.TUPLE:
            for i, y in enumerate(x.operands):
                if not y.shape.is_array:
                    self._join(x, (i,), y, ())
            return True
        if x.opcode is Opcode.GET_TUPLE_ELEMENT:
            if not x.shape.is_array:
                index = x.attributes_as(GetTupleElement).index
                self._join(x, (), x.operands[0], (index,))
            return True
        if x.opcode is Opcode.OPTIMIZATION_BARRIER:
            if not x.shape.is_array:
                self._join(x, (), x.operands[0], ())
            return True
        if x.opcode is Opcode.PARAMETER:
            return True
        return x.shape.is_array and all(y.shape.is_array for y in x.operands)

    def _join_calls(self, x: Instruction) -> bool:
        if any(callee not in self.computations for callee in x.called_computations):
            return False
        for operand, callee in passed(x):
            parameter = callee.parameters[0 if x.opcode is not Opcode.CALL else operand]
            y = x.operands[operand]
            if not y.shape.is_array:
                self._join(parameter, (), y, ())
        results = x.called_computations
        if x.opcode is Opcode.WHILE:
            condition, body = x.called_computations
            self._join(condition.parameters[0], (), x, ())
            self._join(body.parameters[0], (), x, ())
            results = (body,)
        for callee in results:
            self._join(x, (), callee.root, ())
        return True


def passed(x: Instruction) -> list[tuple[int, Computation]]:
    """Return the numbers of operands with the computations that get them as a parameter."""
    callees = x.called_computations
    if x.opcode is Opcode.CALL:
        return [(i, callees[0]) for i in range(len(x.operands))]
    if x.opcode is Opcode.WHILE:
        return [(0, callees[1])]
    return [(1 + i, callee) for i, callee in enumerate(callees)]
