"""The whole program as one sequence, in which callees stand in place of their calls.

A position is one step of the flat schedule. The instructions of a called computation and of the
branches of a conditional stand before their caller. Before a while stand those of its condition,
then those of its body. A computation stands there once per call site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from lowtide.analysis.branch_stretches import (
    BranchStretches,
    Stretch,
    branch_stretches,
    last_reads_in_branches,
)
from lowtide.analysis.call_graph import CallRole, while_body, while_condition
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow, ValueKind
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.records import dataclass

Sequences = Mapping[Computation, Sequence[Instruction]]


@dataclass(frozen=True, eq=False, slots=True)
class FlatCallSite:
    """One run of a computation: by which instruction, within which call site, as what.

    `parent` is the number of the caller's call site, -1 for the first one. `values` are the
    program's numbers of the computation's values.
    """

    flow: ComputationDataflow
    role: CallRole
    caller: Instruction | None
    parent: int
    values: list[int]

    @property
    def computation(self) -> Computation:
        """The computation that runs."""
        return self.flow.computation


@dataclass(slots=True)
class Values:
    """The values of the program, one row per value and call site.

    `first` and `last` are the positions of the definition and the last use; a value that lives
    out of the program is used at the position behind the last one. `leaf` is the leaf of the
    maker's result, `space` the memory space. Read-only values (constants, arguments that no output
    overwrites) have storage of their own, outside of what is planned.
    """

    nbytes: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    maker: list[Instruction] = field(default_factory=list)
    leaf: list[int] = field(default_factory=list)
    site: list[int] = field(default_factory=list)
    space: list[int] = field(default_factory=list)
    read_only: list[bool] = field(default_factory=list)

    def add(self, flow: ComputationDataflow, value: int, position: int, site: int) -> int:
        """Append a value that is live at its definition only, and return its number.

        `value` is its number in the computation of the call site.
        """
        self.nbytes.append(flow.value_bytes[value])
        self.first.append(position)
        self.last.append(position)
        self.maker.append(flow.nodes[flow.value_node[value]])
        self.leaf.append(flow.value_leaf[value])
        self.site.append(site)
        self.space.append(flow.value_space[value])
        self.read_only.append(flow.value_read_only[value])
        return len(self.nbytes) - 1


@dataclass(frozen=True, eq=False, slots=True)
class CarriedState:
    """The state that a while changes, one entry per element: four values that want one buffer.

    `initial` is given, `state` is what condition and body read, `updated` what the body returns,
    `final` what the while returns. `start` is the position of the condition's first instruction,
    where the initial value becomes the state; `end` that of the while. `site` is the call site of
    the body. `leaves` are the numbers of the elements.
    """

    site: int
    leaves: tuple[int, ...]
    start: int
    end: int
    initial: tuple[int, ...]
    state: tuple[int, ...]
    updated: tuple[int, ...]
    final: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Selection:
    """The results of a conditional that differ by branch; each wants one buffer with `final`.

    `returned[b]` are the values of branch `b`, whose call site is `sites[b]` and which ends at
    position `ends[b]`. `leaves` are the numbers of the elements of the result.
    """

    leaves: tuple[int, ...]
    sites: tuple[int, ...]
    ends: tuple[int, ...]
    returned: tuple[tuple[int, ...], ...]
    final: tuple[int, ...]


class FlatOverwrite(NamedTuple):
    """The operation at `position` writes the value `made` into `read`, a leaf of an operand.

    `alone` says that nothing else which the operation reads is `read`.
    """

    position: int
    operand: int
    leaf: int
    read: int
    made: int
    alone: bool


@dataclass(frozen=True, eq=False, slots=True)
class FlatSchedule:
    """The flattened program.

    Per position: the instruction and the number of its call site. `shares` are (value read, value
    made, position): the two may lie in one buffer where the position is the last use of the
    former; none where a callee got the value read as two of its arguments. `joins` stand in the
    order in which loops and conditionals end. `kept` are pairs of a value and a position at which
    it ends but is still needed, so that nothing made there replaces it. `stretches` are those in
    which a value is needed, both ends included, for values that are not needed all the time: what
    a branch of a conditional does not read, and nobody later, is not needed there. `last_reads` are
    pairs of such a value and the position in a branch from which on it is not needed there.
    `asynchronous` are, per asynchronous computation, the first position within it, that of the
    async-start, and that of the async-done up to which it may run.
    """

    sites: tuple[FlatCallSite, ...]
    instructions: tuple[Instruction, ...]
    site_of: tuple[int, ...]
    values: Values
    shares: tuple[tuple[int, int, int], ...]
    overwrites: tuple[FlatOverwrite, ...]
    joins: tuple[CarriedState | Selection, ...]
    kept: frozenset[tuple[int, int]]
    stretches: Mapping[int, tuple[Stretch, ...]]
    last_reads: frozenset[tuple[int, int]]
    asynchronous: tuple[tuple[int, int, int], ...]
    parameters: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of positions."""
        return len(self.instructions)

    @property
    def shares_copies(self) -> bool:
        """Whether a copy might stay where its operand was."""
        opcodes = [self.instructions[position].opcode for _, _, position in self.shares]
        return Opcode.COPY in opcodes

    def stretches_of(self, value: int) -> tuple[Stretch, ...]:
        """Return the first and last positions of each time in which a value is needed."""
        found = self.stretches.get(value)
        return ((self.values.first[value], self.values.last[value]),) if found is None else found

    def ends(self, value: int, position: int) -> bool:
        """Whether a value may be overwritten at a position which reads it."""
        if (value, position) in self.kept:
            return False
        return self.values.last[value] == position or (value, position) in self.last_reads


def flatten(
    root: Computation, sequences: Sequences, flows: Dataflow, writable: frozenset[int]
) -> FlatSchedule:
    """Return the program that starts at `root`; parameter leaves in `writable` may be overwritten.

    All parameters are there from position 0. `sequences` has the order of each computation.
    """
    return _Flattener(sequences, flows).run(root, writable)


_Steps = Generator["_Steps", None, None]


class _Flattener:
    """Walks computations as coroutines on an explicit stack, so that any nesting is safe."""

    def __init__(self, sequences: Sequences, flows: Dataflow) -> None:
        self.flows = flows
        self.sequences = sequences
        self.orders: dict[Computation, list[int]] = {}
        self.sites: list[FlatCallSite] = []
        self.instructions: list[Instruction] = []
        self.site_of: list[int] = []
        self.values = Values()
        self.shares: list[tuple[int, int, int]] = []
        self.overwrites: list[FlatOverwrite] = []
        self.joins: list[CarriedState | Selection] = []
        self.kept: set[tuple[int, int]] = set()
        self.choices: list[BranchStretches] = []
        self.started: dict[tuple[int, Instruction], tuple[int, int]] = {}
        self.asynchronous: list[tuple[int, int, int]] = []

    def run(self, root: Computation, writable: frozenset[int]) -> FlatSchedule:
        flow = self.flows[root]
        site = self._site(root, CallRole.ENTRY, None, -1)
        local = self.sites[site].values
        for leaf, value in enumerate(flow.parameters):
            local[value] = self._make(flow, value, site, 0)
            self.values.read_only[local[value]] = leaf not in writable
        stack: list[_Steps] = [self._computation(site)]
        while stack:
            try:
                stack.append(next(stack[-1]))
            except StopIteration:
                stack.pop()
        outputs = tuple([local[value] for value in flow.root])
        for value in outputs:
            self.values.last[value] = len(self.instructions)
        stretches = branch_stretches(self.choices, self.values.first, self.values.last)
        return FlatSchedule(
            tuple(self.sites),
            tuple(self.instructions),
            tuple(self.site_of),
            self.values,
            tuple(self.shares),
            tuple(self.overwrites),
            tuple(self.joins),
            frozenset(self.kept),
            stretches,
            last_reads_in_branches(self.choices, stretches),
            tuple(self.asynchronous),
            tuple([local[value] for value in flow.parameters]),
            outputs,
        )

    def _site(
        self, computation: Computation, role: CallRole, caller: Instruction | None, parent: int
    ) -> int:
        flow = self.flows[computation]
        values = [-1] * len(flow.value_node)
        self.sites.append(FlatCallSite(flow, role, caller, parent, values))
        return len(self.sites) - 1

    def _make(self, flow: ComputationDataflow, value: int, site: int, position: int) -> int:
        return self.values.add(flow, value, position, site)

    def _step(self, instruction: Instruction, site: int) -> int:
        self.instructions.append(instruction)
        self.site_of.append(site)
        return len(self.instructions) - 1

    # -- one computation -----------------------------------------------------------------------

    def _computation(self, site: int) -> _Steps:
        computation = self.sites[site].computation
        flow = self.flows[computation]
        local = self.sites[site].values
        last = self.values.last
        for node in self._order(computation):
            instruction = flow.nodes[node]
            handler = _HANDLERS.get(instruction.opcode)
            if handler is not None:
                yield handler(self, flow, node, site)
                continue
            position = self._step(instruction, site)
            reads = [local[value] for value in flow.reads[node]]
            for value in reads:
                last[value] = position
            if instruction.opcode is Opcode.PARAMETER:
                continue
            if instruction.opcode is Opcode.ASYNC_DONE:
                self._finish(instruction, site, position)
            for value in flow.makes[node]:
                local[value] = self._make(flow, value, site, position)
            if flow.overwrites[node]:
                self._overwrite(flow, node, local, position)
            shares = flow.shares[node]
            if shares:
                repeated = _repeated(reads)
                self.shares += [
                    (local[read], local[made], position)
                    for read, made in shares
                    if local[read] not in repeated
                ]

    def _overwrite(
        self, flow: ComputationDataflow, node: int, local: list[int], position: int
    ) -> None:
        operands = flow.nodes[node].operands
        given = Counter([local[v] for operand in operands for v in flow.leaves_of(operand)])
        self.overwrites += [
            FlatOverwrite(
                position, operand, leaf, local[read], local[made], given[local[read]] == 1
            )
            for operand, leaf, read, made in flow.overwrites[node]
        ]

    def _order(self, computation: Computation) -> list[int]:
        order = self.orders.get(computation)
        if order is None:
            number = self.flows[computation].number
            order = [number[instruction] for instruction in self.sequences[computation]]
            self.orders[computation] = order
        return order

    def _enter(
        self,
        computation: Computation,
        role: CallRole,
        caller: Instruction,
        parent: int,
        arguments: Sequence[int],
    ) -> int:
        site = self._site(computation, role, caller, parent)
        local = self.sites[site].values
        for value, argument in zip(self.flows[computation].parameters, arguments, strict=True):
            local[value] = argument
        return site

    def _call(self, flow: ComputationDataflow, node: int, site: int) -> _Steps:
        """A call or async-start: the callee works on the caller's values."""
        instruction = flow.nodes[node]
        local = self.sites[site].values
        given = [local[v] for x in instruction.operands for v in flow.leaves_of(x)]
        callee = instruction.called_computations[0]
        is_call = instruction.opcode is Opcode.CALL
        role = CallRole.CALL if is_call else CallRole.ASYNC
        begin = len(self.instructions)
        inner = self._enter(callee, role, instruction, site, given)
        yield self._computation(inner)
        position = self._step(instruction, site)
        if not is_call:
            self.started[site, instruction] = begin, position
        returned = [self.sites[inner].values[v] for v in self.flows[callee].root]
        shift = 0 if is_call else len(given)
        for leaf, value in enumerate(flow.leaves[node][shift : shift + len(returned)]):
            local[value] = returned[leaf]
        for value in flow.makes[node]:
            if flow.value_kind[value] is not ValueKind.RETURNED:
                local[value] = self._make(flow, value, site, position)

    def _finish(self, instruction: Instruction, site: int, position: int) -> None:
        """An async-done: what the computation used may be in use until here."""
        start = instruction
        while start.operands and (site, start) not in self.started:
            start = start.operands[0]
        if (site, start) in self.started:
            self.asynchronous.append((*self.started[site, start], position))

    def _conditional(self, flow: ComputationDataflow, node: int, site: int) -> _Steps:
        instruction = flow.nodes[node]
        local = self.sites[site].values
        for value in flow.leaves_of(instruction.operands[0]):
            self.values.last[local[value]] = len(self.instructions)
        made = flow.makes[node]
        leaves = [flow.leaves[node].index(value) for value in made]
        sites, ends, returned = [], [], []
        choice = BranchStretches()
        for branch, operand in zip(
            instruction.called_computations, instruction.operands[1:], strict=True
        ):
            given = [local[value] for value in flow.leaves_of(operand)]
            inner = self._enter(branch, CallRole.BRANCH, instruction, site, given)
            start = len(self.instructions)
            yield self._computation(inner)
            sites.append(inner)
            ends.append(len(self.instructions) - 1)
            root = [self.sites[inner].values[value] for value in self.flows[branch].root]
            returned.append(tuple([root[leaf] for leaf in leaves]))
            for value in returned[-1]:
                self._keep(value, ends[-1])
            choice.add(start, ends[-1], given, self.values.last)
        self.choices.append(choice)
        position = self._step(instruction, site)
        for value in made:
            local[value] = self._make(flow, value, site, position)
        final = tuple([local[value] for value in made])
        self.joins.append(
            Selection(tuple(leaves), tuple(sites), tuple(ends), tuple(returned), final)
        )

    def _keep(self, value: int, position: int) -> None:
        """A result of what runs within the program is needed beyond the last position of that."""
        self.values.last[value] = position
        self.kept.add((value, position))

    def _while(self, flow: ComputationDataflow, node: int, site: int) -> _Steps:
        instruction = flow.nodes[node]
        local = self.sites[site].values
        last = self.values.last
        start = len(self.instructions)
        given = [local[value] for value in flow.leaves_of(instruction.operands[0])]
        body = self.flows[while_body(instruction)]
        changed = body.changed_state
        inside = list(given)
        for leaf in changed:
            last[given[leaf]] = start
            made = flow.leaves[node][leaf]
            inside[leaf] = self._make(flow, made, site, start)
        condition = while_condition(instruction)
        inner = self._enter(condition, CallRole.CONDITION, instruction, site, inside)
        yield self._computation(inner)
        for value in self.flows[condition].root:
            # The loop reads it behind the condition, wherever in that the root stands.
            self._keep(self.sites[inner].values[value], len(self.instructions) - 1)
        for leaf in changed:
            # The loop may end here, with the state as its result.
            last[inside[leaf]] = len(self.instructions)
        inner = self._enter(while_body(instruction), CallRole.BODY, instruction, site, inside)
        yield self._computation(inner)
        end = self._step(instruction, site)
        for outside, within in zip(given, inside, strict=True):
            if outside == within:
                last[outside] = end
        updated = [self.sites[inner].values[body.root[leaf]] for leaf in changed]
        for value in updated:
            last[value] = end
        for leaf in changed:
            made = flow.leaves[node][leaf]
            local[made] = self._make(flow, made, site, end)
        self.joins.append(
            CarriedState(
                inner,
                changed,
                start,
                end,
                tuple([given[leaf] for leaf in changed]),
                tuple([inside[leaf] for leaf in changed]),
                tuple(updated),
                tuple([local[flow.leaves[node][leaf]] for leaf in changed]),
            )
        )


_HANDLERS = {
    Opcode.CALL: _Flattener._call,
    Opcode.ASYNC_START: _Flattener._call,
    Opcode.CONDITIONAL: _Flattener._conditional,
    Opcode.WHILE: _Flattener._while,
}


def _repeated(values: list[int]) -> frozenset[int]:
    if len(set(values)) == len(values):
        return _NONE
    return frozenset([value for value, count in Counter(values).items() if count > 1])


_NONE: Final[frozenset[int]] = frozenset()
