"""The value at each leaf of each instruction, whether it is new or only passed on.

A *value* is an array (or token) made by one instruction. Tuples, get-tuple-element, bitcasts,
barriers and calls pass values on. A loop passes on those elements of its state that its body
returns unchanged. Values are numbered per computation, and the numbers of different computations
have nothing to do with one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from lowtide.analysis.call_graph import executed_computations, while_body
from lowtide.analysis.forwarding import NEW, PASSING, LeafCounts, Leaves, forwarded, reads_operands
from lowtide.analysis.sharing import shared_values
from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.kept import kept
from lowtide.ir.opcode import CALLERS
from lowtide.ir.shape import HOST_MEMORY
from lowtide.ir.traversal import all_callees
from lowtide.ops.in_place import in_place_pairs
from lowtide.records import dataclass


class ValueKind(IntEnum):
    """The source of a value."""

    PARAMETER = 0
    CONSTANT = 1
    MADE = 2
    """By the instruction itself; also the state of a loop and the result of a conditional."""
    RETURNED = 3
    """By a computation that the instruction calls: it is made in there."""


class Overwrite(NamedTuple):
    """An operation puts the value `made` in place of `read`, leaf `leaf` of operand `operand`."""

    operand: int
    leaf: int
    read: int
    made: int


@dataclass(frozen=True, eq=False, slots=True)
class ComputationDataflow:
    """The values of one computation.

    Nodes are the instructions in order of creation; `number` is their position. Per node: `leaves`,
    the values of its leaves, depth first; `reads`, the values it reads, none of them twice;
    `makes`, the values that appear with it; `shares`, pairs (value read, value made) that may lie
    in one buffer where the former is not read later; `overwrites`, those that have to, because the
    operation writes into its operand. Per value: node, leaf, bytes on the device, kind, whether it
    may never be written, and memory space.
    `parameters` and `root` are the values of the leaves of all parameters and of the result.
    """

    computation: Computation
    nodes: tuple[Instruction, ...]
    number: Mapping[Instruction, int]
    leaves: tuple[Leaves, ...]
    reads: tuple[Leaves, ...]
    makes: tuple[Leaves, ...]
    shares: tuple[tuple[tuple[int, int], ...], ...]
    overwrites: tuple[tuple[Overwrite, ...], ...]
    value_node: tuple[int, ...]
    value_leaf: tuple[int, ...]
    value_bytes: tuple[int, ...]
    value_kind: tuple[ValueKind, ...]
    value_read_only: tuple[bool, ...]
    value_space: tuple[int, ...]
    parameters: Leaves
    root: Leaves

    def leaves_of(self, instruction: Instruction) -> Leaves:
        """Return the values of the leaves of an instruction."""
        return self.leaves[self.number[instruction]]

    @property
    def changed_state(self) -> tuple[int, ...]:
        """The leaves that the computation, as a loop body, returns changed."""
        pairs = zip(self.parameters, self.root, strict=True)
        return tuple([leaf for leaf, (before, after) in enumerate(pairs) if before != after])


Dataflow = dict[Computation, ComputationDataflow]


def dataflow(root: Computation, *, with_host: bool = False) -> Dataflow:
    """Return the values of `root` and of all computations that it runs, callees first.

    With `with_host` the arrays of the host's memory have bytes too: what may share a place there
    is asked as anywhere, but not counted. Those of a computation are found once, as long as neither
    it nor what it calls changes.
    """
    flows: Dataflow = {}
    counts = LeafCounts()
    for computation in executed_computations(root):
        flow = _kept(computation, flows, counts, with_host=False)
        if with_host and HOST_MEMORY in flow.value_space:
            flow = _kept(computation, flows, counts, with_host=True)
        flows[computation] = flow
    return flows


def _kept(
    computation: Computation, flows: Dataflow, counts: LeafCounts, *, with_host: bool
) -> ComputationDataflow:
    called = tuple([(x, x.version) for x in all_callees(computation)])
    walk = _Walk(computation, flows, counts, with_host=with_host)
    return kept(computation, (ComputationDataflow, with_host, called), walk.run)


def with_host(root: Computation, flows: Dataflow) -> Dataflow:
    """Return the values as `dataflow(root, with_host=True)`, of which `flows` has the device's."""
    if any(HOST_MEMORY in flow.value_space for flow in flows.values()):
        return dataflow(root, with_host=True)
    return flows


class _Walk:
    """The walk over one computation whose callees are done."""

    def __init__(
        self, computation: Computation, flows: Dataflow, counts: LeafCounts, *, with_host: bool
    ) -> None:
        self.with_host = with_host
        self.computation = computation
        self.flows = flows
        self.counts = counts
        self.leaves: dict[Instruction, Leaves] = {}
        self.value_node: list[int] = []
        self.value_leaf: list[int] = []
        self.value_bytes: list[int] = []
        self.value_kind: list[ValueKind] = []
        self.read_only: list[bool] = []
        self.space: list[int] = []
        self.reads: dict[Instruction, Leaves] = {}
        self.makes: dict[Instruction, Leaves] = {}

    def run(self) -> ComputationDataflow:
        nodes = tuple(self.computation.instructions.values())
        number = {instruction: i for i, instruction in enumerate(nodes)}
        for instruction in _operands_first(nodes):
            self._visit(instruction, number[instruction])
        parameters = [v for p in self.computation.parameters for v in self.leaves[p]]
        reusing = {x for x in nodes if self._finds_place(x)}
        return ComputationDataflow(
            self.computation,
            nodes,
            number,
            tuple([self.leaves[x] for x in nodes]),
            tuple([self.reads[x] for x in nodes]),
            tuple([self.makes[x] for x in nodes]),
            tuple([self._shares(x) if x in reusing else () for x in nodes]),
            tuple([self._overwrites(x) if x in reusing else () for x in nodes]),
            tuple(self.value_node),
            tuple(self.value_leaf),
            tuple(self.value_bytes),
            tuple(self.value_kind),
            tuple(self.read_only),
            tuple(self.space),
            tuple(parameters),
            self.leaves[self.computation.root],
        )

    def _visit(self, instruction: Instruction, node: int) -> None:
        operands = [self.leaves[x] for x in instruction.operands]
        if instruction.opcode in _MAKING and not instruction.shape.is_tuple:
            kind = _KINDS.get(instruction.opcode, ValueKind.MADE)
            made = (self._value(node, 0, instruction.shape, kind),)
            self.leaves[instruction] = self.makes[instruction] = made
            self.reads[instruction] = tuple(dict.fromkeys([v for given in operands for v in given]))
            return
        first = len(self.value_node)
        known: Sequence[int] | None
        if instruction.opcode in CALLERS:
            known = self._called(instruction, node, operands)
            reads = True
        else:
            known = forwarded(instruction, operands, self.counts)
            reads = reads_operands(instruction, known)
        if known is None:
            known = [NEW] * self.counts.of(instruction.shape)
        if NEW in known:
            known = self._make(instruction, node, known)
        self.leaves[instruction] = tuple(known)
        self.makes[instruction] = tuple(range(first, len(self.value_node)))
        values = [v for leaves in operands for v in leaves] if reads else []
        self.reads[instruction] = tuple(dict.fromkeys(values))

    def _make(self, instruction: Instruction, node: int, known: Sequence[int]) -> list[int]:
        kind = _KINDS.get(instruction.opcode, ValueKind.MADE)
        if not instruction.shape.is_tuple:
            return [self._value(node, 0, instruction.shape, kind)]
        leaves = list(known)
        for leaf, (_, shape) in enumerate(instruction.shape.leaves()):
            if leaves[leaf] == NEW:
                leaves[leaf] = self._value(node, leaf, shape, kind)
        return leaves

    def _value(
        self, node: int, leaf: int, shape: Shape, kind: ValueKind, *, read_only: bool = False
    ) -> int:
        self.value_node.append(node)
        self.value_leaf.append(leaf)
        self.space.append(shape.memory_space)
        counts = self.with_host or shape.memory_space != HOST_MEMORY
        self.value_bytes.append(shape.nbytes if counts else 0)
        self.value_kind.append(kind)
        self.read_only.append(read_only or kind is ValueKind.CONSTANT)
        return len(self.value_node) - 1

    # -- control flow --------------------------------------------------------------------------

    def _called(self, instruction: Instruction, node: int, operands: list[Leaves]) -> Sequence[int]:
        if instruction.opcode is Opcode.WHILE:
            body = self.flows[while_body(instruction)]
            changed = set(body.changed_state)
            return [NEW if k in changed else v for k, v in enumerate(operands[0])]
        if instruction.opcode is Opcode.CONDITIONAL:
            return self._conditional(instruction, operands)
        given = [v for leaves in operands for v in leaves]
        returned = self._returned(instruction, node, given)
        if instruction.opcode is Opcode.CALL:
            return returned
        rest = self.counts.of(instruction.shape) - len(given) - len(returned)
        leaves = [*given, *returned, *([NEW] * rest)]
        for before, after in self._overwritten(instruction):
            leaves[before] = leaves[after]
        return leaves

    def _overwritten(self, instruction: Instruction) -> list[tuple[int, int]]:
        """Per operand leaf of an async-start that a result leaf replaces: where both stand in it.

        What is left of the operand then is the result, which the async-done waits for.
        """
        pairs = []
        shape, counts = instruction.shape, self.counts
        for (operand, index), output in in_place_pairs(instruction):
            before = counts.position(shape, (0, operand, *index))
            after = counts.position(shape, output)
            count = counts.of(shape.at(output))
            pairs += [(before + leaf, after + leaf) for leaf in range(count)]
        return pairs

    def _returned(self, instruction: Instruction, node: int, given: list[int]) -> list[int]:
        """The values that a call returns: operands passed through, and new ones."""
        callee = self.flows[instruction.called_computations[0]]
        outer = dict(zip(callee.parameters, given, strict=True))
        shift = len(given) if instruction.opcode is Opcode.ASYNC_START else 0
        shapes = [shape for _, shape in callee.computation.root.shape.leaves()]
        for leaf, value in enumerate(callee.root):
            if value not in outer:
                read_only = callee.value_read_only[value]
                outer[value] = self._value(
                    node, leaf + shift, shapes[leaf], ValueKind.RETURNED, read_only=read_only
                )
        return [outer[value] for value in callee.root]

    def _conditional(self, instruction: Instruction, operands: list[Leaves]) -> list[int]:
        """An element is passed on where every branch returns the same outer value."""
        returned = []
        for branch, given in zip(instruction.called_computations, operands[1:], strict=True):
            flow = self.flows[branch]
            outer = dict(zip(flow.parameters, given, strict=True))
            returned.append([outer.get(value, NEW) for value in flow.root])
        return [
            values[0] if len(set(values)) == 1 else NEW for values in zip(*returned, strict=True)
        ]

    def _finds_place(self, instruction: Instruction) -> bool:
        """Whether any value that an instruction makes has the bytes of one that it is given.

        Only then are the rules of its operation asked, which takes longer.
        """
        made = self.makes[instruction]
        if not made or not instruction.operands:
            return False
        sizes = self.value_bytes
        given = {sizes[v] for x in instruction.operands for v in self.leaves[x]}
        return any(sizes[v] in given for v in made)

    def _shares(self, instruction: Instruction) -> tuple[tuple[int, int], ...]:
        made = set(self.makes[instruction])
        operands = [self.leaves[x] for x in instruction.operands]
        pairs = shared_values(instruction, operands, self.leaves[instruction], self.counts)
        return tuple([(x, y) for x, y in pairs if y in made and self._fits(x, y)])

    def _overwrites(self, instruction: Instruction) -> tuple[Overwrite, ...]:
        if instruction.opcode in CALLERS:
            return ()
        made = self.makes[instruction]
        found = []
        counts = self.counts
        for (operand, index), output in in_place_pairs(instruction):
            shape = instruction.operands[operand].shape
            count = counts.of(shape.at(index))
            if count != counts.of(instruction.shape.at(output)):
                continue
            first = counts.position(shape, index)
            shift = counts.position(instruction.shape, output) - first
            for leaf in range(first, first + count):
                read = self.leaves[instruction.operands[operand]][leaf]
                value = self.leaves[instruction][leaf + shift]
                if value in made and self._equal_place(read, value):
                    found.append(Overwrite(operand, leaf, read, value))
        return tuple(found)

    def _equal_place(self, read: int, made: int) -> bool:
        """Whether a value has the bytes and the memory space of another one."""
        size = self.value_bytes[made]
        return 0 < size == self.value_bytes[read] and self.space[made] == self.space[read]

    def _fits(self, read: int, made: int) -> bool:
        return self._equal_place(read, made) and not self.read_only[read]


_MAKING = frozenset([x for x in Opcode if x not in CALLERS and x not in PASSING])
"""Operations whose result, where it is an array, is a value of its own."""

_KINDS = {Opcode.PARAMETER: ValueKind.PARAMETER, Opcode.CONSTANT: ValueKind.CONSTANT}


def _operands_first(nodes: tuple[Instruction, ...]) -> Sequence[Instruction]:
    """The nodes as they are where that is an order of definition before use, else sorted so."""
    seen: set[Instruction] = set()
    for instruction in nodes:
        if not seen.issuperset(instruction.operands):
            return _sorted_by_operands(nodes)
        seen.add(instruction)
    return nodes


def _sorted_by_operands(nodes: tuple[Instruction, ...]) -> list[Instruction]:
    waiting = {x: len(set(x.operands)) for x in nodes}
    order = [x for x in nodes if not waiting[x]]
    for instruction in order:
        for user in instruction.users:
            waiting[user] -= 1
            if not waiting[user]:
                order.append(user)
    return order
