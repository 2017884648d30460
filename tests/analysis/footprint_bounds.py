"""A lower bound on the memory of a program in any order: its largest single step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lowtide.analysis.call_graph import CallRole, call_sites, executed_callees, while_body
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow, ValueKind
from lowtide.analysis.donation import Alias, body_aliases
from lowtide.ir import Computation, Opcode


class FootprintBounds:
    """Bytes that computations need beyond their arguments in any order of their instructions.

    While an instruction runs, all that it reads and makes is live, save what it may write in place;
    around a call, what the callee needs; around a loop, also its state. At the end, all outputs. An
    argument that is returned as it is stays live throughout, so it adds nothing to any step.
    """

    def __init__(self, flows: Dataflow) -> None:
        self.flows = flows
        bodies = {
            callee
            for computation in flows
            for _, role, callee in call_sites(computation)
            if role is CallRole.BODY
        }
        self._callee: dict[Computation, int] = {}
        self._body: dict[Computation, int] = {}
        for computation, flow in flows.items():
            self._callee[computation] = self._within(computation, ())
            if computation in bodies:
                self._body[computation] = self._within(computation, body_aliases(flow))

    def of(
        self, computation: Computation, aliases: Sequence[Alias], *, owns_results: bool = False
    ) -> int:
        """Return the bound on what `computation` needs beyond its arguments.

        With `owns_results`, each leaf of the result has storage of its own, as in the entry.
        """
        flow = self.flows[computation]
        given = {flow.parameters[alias.parameter] for alias in aliases}
        if owns_results:
            outputs = sum([flow.value_bytes[value] for value in flow.root])
        else:
            outputs = sum([_bytes(flow, value, given) for value in set(flow.root)])
        alias_bytes = sum([flow.value_bytes[value] for value in given])
        return max(self._within(computation, aliases), outputs - alias_bytes)

    def _within(self, computation: Computation, aliases: Sequence[Alias]) -> int:
        """The bound that holds for a callee, whose caller may ignore its results."""
        flow = self.flows[computation]
        counted = {flow.parameters[alias.parameter] for alias in aliases}.difference(flow.root)
        steps = [self._step(flow, node, counted) for node in range(len(flow.nodes))]
        alias_bytes = sum([flow.value_bytes[value] for value in counted])
        return max(0, max(steps, default=0) - alias_bytes)

    def _step(self, flow: ComputationDataflow, node: int, counted: Collection[int]) -> int:
        instruction = flow.nodes[node]
        if instruction.opcode is Opcode.WHILE:
            return self._loop(flow, node, counted)
        callees = executed_callees(instruction)
        if callees:
            return max([self._callee[callee] for _, callee in callees])
        if instruction.opcode is Opcode.PARAMETER:
            return 0
        read = sum([_bytes(flow, value, counted) for value in flow.reads[node]])
        made = sum([_bytes(flow, value, counted) for value in flow.makes[node]])
        in_place = {made for _, made in flow.shares[node]}
        return read + made - sum([flow.value_bytes[value] for value in in_place])

    def _loop(self, flow: ComputationDataflow, node: int, counted: Collection[int]) -> int:
        changed = set(flow.makes[node])
        passed = {value for value in flow.leaves[node] if value not in changed}
        state = sum([flow.value_bytes[value] for value in changed])
        around = sum([_bytes(flow, value, counted) for value in passed])
        return state + around + self._body[while_body(flow.nodes[node])]


def _bytes(flow: ComputationDataflow, value: int, counted: Collection[int]) -> int:
    """Bytes that the value adds: none for constants and for arguments that nothing overwrites."""
    if flow.value_kind[value] is ValueKind.PARAMETER:
        return flow.value_bytes[value] if value in counted else 0
    return 0 if flow.value_read_only[value] else flow.value_bytes[value]
