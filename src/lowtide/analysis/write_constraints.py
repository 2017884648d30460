"""The order that it takes for one value to replace another one in memory.

Before a value is overwritten, all that reads it has to be done. Reads and writes may lie in
different computations. Then the constraint holds between their callers, in the computation in which
these meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

from lowtide.analysis.dataflow import ComputationDataflow
from lowtide.analysis.flat_schedule import CarriedState, FlatSchedule
from lowtide.analysis.topological_order import Edge
from lowtide.ir import Computation, Instruction, Opcode

Constraint = tuple[Computation, Edge]


@final
class WriteConstraints:
    """Answers for one flattened program; the order of its instructions does not matter."""

    def __init__(self, flat: FlatSchedule) -> None:
        self._flat = flat
        self._readers: dict[Computation, list[list[int]]] = {}
        self._needed_at_end = _needed_at_end(flat)
        self._seen_in: list[list[tuple[int, int]]] = [[] for _ in flat.values.nbytes]
        """Per value the call sites that see it, and its number there."""
        for number, site in enumerate(flat.sites):
            for local, value in enumerate(site.values):
                if value >= 0:
                    self._seen_in[value].append((number, local))

    def between(self, before: int, after: int) -> list[Constraint] | None:
        """Return what makes `before` end before `after` is there; None where nothing can.

        All that reads `before`, and what makes it, precedes what makes `after`, save `after`'s own
        maker. A value that a loop body, a branch or the program returns is needed up to its end.
        """
        sites, values = self._flat.sites, self._flat.values
        makers = self._chain(values.site[after], values.maker[after])
        found: list[Constraint] = []
        for number, local in self._seen_in[before]:
            flow = sites[number].flow
            is_needed_at_end = before in self._needed_at_end.get(number, ())
            if number in makers and is_needed_at_end:
                return None
            readers = [(number, x) for x in self._touching(flow, local, number, before)]
            caller = sites[number].caller
            if is_needed_at_end and caller is not None:
                readers.append((sites[number].parent, caller))
            edges = [self._meeting(site, reader, makers) for site, reader in readers]
            found += [x for x in edges if x is not None]
        return found

    def _chain(self, site: int, instruction: Instruction) -> dict[int, Instruction]:
        """An instruction and its callers, by call site."""
        chain = {}
        caller: Instruction | None = instruction
        while caller is not None:
            chain[site] = caller
            caller, site = self._flat.sites[site].caller, self._flat.sites[site].parent
        return chain

    def _touching(
        self, flow: ComputationDataflow, local: int, site: int, value: int
    ) -> Iterator[Instruction]:
        """What reads a value in a computation, and what makes it there."""
        readers = self._readers.get(flow.computation)
        if readers is None:
            readers = self._readers[flow.computation] = [[] for _ in flow.value_node]
            for node, instruction in enumerate(flow.nodes):
                for read in _reads(flow, node, instruction):
                    readers[read].append(node)
        for node in readers[local]:
            yield flow.nodes[node]
        maker = self._flat.values.maker[value]
        # An argument that nobody reads is there at the first position all the same.
        is_argument = maker.opcode is Opcode.PARAMETER
        if self._flat.values.site[value] == site and not (is_argument and readers[local]):
            yield maker

    def _meeting(
        self, site: int, reader: Instruction, makers: dict[int, Instruction]
    ) -> Constraint | None:
        """The constraint in the computation that both a reader and a maker run in."""
        while site not in makers:
            caller = self._flat.sites[site].caller
            if caller is None:
                return None
            reader, site = caller, self._flat.sites[site].parent
        maker = makers[site]
        return None if reader is maker else (reader.parent, (reader, maker))


def _needed_at_end(flat: FlatSchedule) -> dict[int, frozenset[int]]:
    """Per call site the values that it hands over when it ends, not just passes on."""
    found = {0: frozenset(flat.outputs)}
    for join in flat.joins:
        if isinstance(join, CarriedState):
            found[join.site] = frozenset(join.updated)
        else:
            for site, returned in zip(join.sites, join.returned, strict=True):
                found[site] = frozenset(returned)
    return found


def _reads(flow: ComputationDataflow, node: int, instruction: Instruction) -> Iterable[int]:
    """What an instruction reads itself, not in what it calls."""
    if instruction.opcode is Opcode.CONDITIONAL:
        return flow.leaves_of(instruction.operands[0])
    if instruction.opcode in (Opcode.CALL, Opcode.ASYNC_START):
        return ()
    return flow.reads[node]
