"""Values of which it is known that all devices that run one program have the same."""

from __future__ import annotations

from collections import deque
from typing import Final

from lowtide.checking.communication.participants import GroupError, groups_of
from lowtide.checking.order import callees, computations
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import GetTupleElement, Parameter
from lowtide.ir.shape import Shape
from lowtide.ir.sharding import Sharding, ShardingKind, TileSharding, TupleSharding

Varying = tuple[bool, ...]
"""Of each leaf of a value, depth first, whether it may differ between devices."""

_OWN: Final = frozenset(
    {
        *(Opcode.PARTITION_ID, Opcode.REPLICA_ID, Opcode.INFEED, Opcode.RECV, Opcode.RECV_DONE),
        *(Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE, Opcode.CUSTOM_CALL),
    }
)
"""Of whose results nothing is known."""

_AGREEING: Final = frozenset(
    {
        *(Opcode.ALL_GATHER, Opcode.ALL_GATHER_START, Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START),
        Opcode.COLLECTIVE_BROADCAST,
    }
)
"""Each device of a group gets the same result."""


class UniformValues:
    """The values of a module of which it is known that all devices have the same.

    It is taken that all of them have, until something says otherwise; so loop states are right.
    """

    def __init__(self, module: Module) -> None:
        self._order = computations(module.entry)
        self._callers: dict[Computation, list[Instruction]] = {x: [] for x in self._order}
        self._varying: dict[Instruction, Varying] = {}
        self._entry = module.entry
        for computation in self._order:
            for x in computation.instructions.values():
                self._varying[x] = (False,) * _leaf_count(x.shape)
                for callee in callees(x):
                    self._callers[callee].append(x)
        self._settle()

    def is_uniform(self, x: Instruction) -> bool:
        """Whether no leaf of a value may differ between devices."""
        return not any(self._varying[x])

    def chosen_alike(self, x: Instruction) -> bool:
        """Whether all devices run a loop as often, or the same branch of a conditional."""
        chooser = x.called_computations[0].root if x.opcode is Opcode.WHILE else x.operands[0]
        return self.is_uniform(chooser)

    def _settle(self) -> None:
        waiting = deque([x for c in self._order for x in c.instructions.values()])
        queued = set(waiting)
        while waiting:
            x = waiting.popleft()
            queued.discard(x)
            found = self._of(x)
            if found == self._varying[x]:
                continue
            self._varying[x] = found
            for y in self._readers(x):
                if y not in queued:
                    queued.add(y)
                    waiting.append(y)

    def _readers(self, x: Instruction) -> list[Instruction]:
        """What is to be looked at again: users, the parameters that a user hands on to, callers."""
        readers = list(x.users)
        for user in [*x.users, x]:
            readers += [y for callee in callees(user) for y in callee.parameters]
        if x.is_root:
            readers += self._callers.get(x.parent, [])
            for caller in self._callers.get(x.parent, []):
                readers += [y for callee in callees(caller) for y in callee.parameters]
        return readers

    def _of(self, x: Instruction) -> Varying:
        count = len(self._varying[x])
        if x.opcode is Opcode.PARAMETER:
            return self._parameter(x)
        if x.opcode in _OWN:
            return (True,) * count
        if x.opcode in _AGREEING and _is_everyone(x):
            sent = _leaf_count(x.shape.tuple_shapes[0]) if _returns_operands(x) else 0
            return (*self._any(x)[:sent], *[False] * (count - sent))
        if x.opcode is Opcode.TUPLE:
            return tuple([flag for y in x.operands for flag in self._varying[y]])
        if x.opcode is Opcode.GET_TUPLE_ELEMENT:
            return self._element(x, x.attributes_as(GetTupleElement).index)
        if x.opcode is Opcode.ALL_GATHER_DONE:
            return self._element(x, 1)
        if x.opcode is Opcode.OPTIMIZATION_BARRIER:
            return self._varying[x.operands[0]]
        if x.opcode is Opcode.WHILE:
            return self._loop(x)
        if x.opcode is Opcode.CONDITIONAL:
            return self._branches(x)
        if x.opcode is Opcode.CALL:
            return self._varying[x.called_computations[0].root]
        return self._any(x)

    def _any(self, x: Instruction) -> Varying:
        varies = any(True in self._varying[y] for y in x.operands)
        return (varies,) * len(self._varying[x])

    def _parameter(self, x: Instruction) -> Varying:
        """Of the entry only those that a sharding says to be whole on all devices are alike."""
        if x.parent is self._entry:
            return tuple(_given(x.shape, x.annotations.sharding))
        number = x.attributes_as(Parameter).number
        found = [False] * len(self._varying[x])
        for caller in self._callers[x.parent]:
            for i, flag in enumerate(self._handed(caller, x.parent, number)):
                found[i] |= flag
        return tuple(found)

    def _handed(self, caller: Instruction, callee: Computation, number: int) -> Varying:
        """What a caller hands on as a parameter."""
        if caller.opcode is Opcode.WHILE:
            return self._loop(caller)
        if caller.opcode is Opcode.CONDITIONAL:
            given = [
                self._varying[caller.operands[i + 1]]
                for i, branch in enumerate(caller.called_computations)
                if branch is callee
            ]
            return tuple([any(flags) for flags in zip(*given, strict=True)])
        return self._varying[caller.operands[number]]

    def _loop(self, x: Instruction) -> Varying:
        condition, body = x.called_computations
        if True in self._varying[condition.root]:
            return (True,) * len(self._varying[x])
        before, after = self._varying[x.operands[0]], self._varying[body.root]
        return tuple([a or b for a, b in zip(before, after, strict=True)])

    def _branches(self, x: Instruction) -> Varying:
        if True in self._varying[x.operands[0]]:
            return (True,) * len(self._varying[x])
        roots = [self._varying[y.root] for y in x.called_computations]
        return tuple([any(flags) for flags in zip(*roots, strict=True)])

    def _element(self, x: Instruction, wanted: int) -> Varying:
        before = sum([_leaf_count(y) for y in x.operands[0].shape.tuple_shapes[:wanted]])
        return self._varying[x.operands[0]][before : before + len(self._varying[x])]


def _leaf_count(shape: Shape) -> int:
    return len(list(shape.leaves()))


def _returns_operands(x: Instruction) -> bool:
    """Whether the operands are the first element of the result."""
    return x.opcode is Opcode.ALL_GATHER_START


def _is_everyone(x: Instruction) -> bool:
    """Whether one group holds all devices."""
    try:
        return len(groups_of(x)) == 1
    except GroupError:
        return False


def _given(shape: Shape, sharding: Sharding | None) -> list[bool]:
    count = _leaf_count(shape)
    if isinstance(sharding, TupleSharding) and len(sharding.elements) == count:
        return [not _is_whole(x) for x in sharding.elements]
    return [sharding is None or not _is_whole(sharding)] * count


def _is_whole(sharding: Sharding) -> bool:
    return isinstance(sharding, TileSharding) and sharding.kind is ShardingKind.REPLICATED
