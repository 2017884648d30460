"""The least memory of any compilation: the largest minimum cut over the moments of a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, final

from lowtide.analysis.call_graph import while_body
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow, dataflow
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.least_memory.kinds import Kind, kind_of
from lowtide.least_memory.moments import Cut, Moments, When
from lowtide.least_memory.results import lasting_arguments
from lowtide.least_memory.values import ProgramValues, values_of
from lowtide.records import dataclass

DEFAULT_WORK: Final = 8_000_000
"""Arcs that are looked at where nothing else is said: a second or so."""


@dataclass(frozen=True, eq=False, slots=True)
class BindingMoment:
    """A moment of a computation that is looked at, and the values that count for nothing then.

    `number` is that of the operation among those of `values`; at the end it is 0. `moments` are all
    of the computation, whose arcs are made once.
    """

    computation: Computation
    flow: ComputationDataflow
    moments: Moments
    number: int
    when: When
    without: tuple[int, ...] = ()

    @property
    def values(self) -> ProgramValues:
        """The values of the computation."""
        return self.moments.values

    @property
    def at(self) -> Instruction | None:
        """The operation; None at the end."""
        return None if self.when is When.END else self.values.instructions[self.number]

    def cut(self) -> Cut:
        """Return what is in memory at least, and what shows that."""
        if self.when is When.END:
            kept = sorted(self.values.kept)
            return Cut(int(self.values.nbytes[kept].sum()), tuple(kept), ())
        return self.moments.cut(self.number, self.when, self.without)


@dataclass(frozen=True, eq=False, slots=True)
class LeastMemory:
    """What each compilation of a module needs at least, in bytes, arguments included.

    `moments` are those that show it: one of the entry; where that is within a loop or a branch, one
    of the computation that runs there, and so on. `is_whole` says whether all moments were looked
    at: a larger bound may be found with more time. `lasting_bytes` are those of arguments that
    stay, `once` are the operations of the module that run once.
    """

    nbytes: int
    moments: tuple[BindingMoment, ...]
    is_whole: bool
    lasting_bytes: int = 0
    once: frozenset[Opcode] = frozenset()

    @property
    def at(self) -> Instruction | None:
        """The operation of the entry while, before or after which so much is in memory.

        None for the end.
        """
        return self.moments[0].at


def least_memory(module: Module, most_work: int = DEFAULT_WORK) -> LeastMemory:
    """Return the bound of a module at the stage "layout", the largest found in so much work.

    Work is counted in arcs of the networks whose minimum cuts are found.
    """
    flows = dataflow(module.entry)
    flow = flows[module.entry]
    lasting = lasting_arguments(module, flow)
    held = sum([flow.value_bytes[v] for v in lasting])
    found = _Search(flows, most_work).of(module.entry, lasting)
    once = {x.opcode for flow in flows.values() for x in flow.nodes if kind_of(x) is not Kind.FREE}
    return LeastMemory(held + found.nbytes, found.moments, found.is_whole, held, frozenset(once))


@final
class _Search:
    """The bounds of computations that call one another."""

    def __init__(self, flows: Dataflow, most_work: int) -> None:
        self.flows = flows
        self.work_left = most_work
        self.is_whole = True
        self._known: dict[tuple[Computation, frozenset[int]], LeastMemory] = {}

    def of(self, computation: Computation, lasting: Collection[int]) -> LeastMemory:
        """Return the bound of a computation, beyond what lasts."""
        key = (computation, frozenset(lasting))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._searched(self.flows[computation], key[1])
        return found

    def _searched(self, flow: ComputationDataflow, lasting: frozenset[int]) -> LeastMemory:
        values = values_of(flow, lasting)
        moments = Moments(values)
        end = BindingMoment(flow.computation, flow, moments, 0, When.END)
        most = LeastMemory(moments.end(), (end,), self.is_whole)
        for found in self._looked_at(flow, moments):
            if found.nbytes > most.nbytes:
                most = found
        return LeastMemory(most.nbytes, most.moments, self.is_whole)

    def _looked_at(self, flow: ComputationDataflow, moments: Moments) -> Iterator[LeastMemory]:
        """Yield what operations need: those that call first, with half of the work."""
        left_over = self.work_left // 2
        calling = [i for i in moments.once if moments.values.instructions[i].opcode in _INSIDE]
        for number in calling:
            if self.work_left < left_over:
                self.is_whole = False
                break
            yield self._at(flow, moments, number)
        spread = _Spread(sorted({*moments.once}.difference(calling)))
        while spread.is_left:
            if self.work_left < 0:
                self.is_whole = False
                break
            found = self._at(flow, moments, spread.next())
            spread.tell(found.nbytes)
            yield found

    def _at(self, flow: ComputationDataflow, moments: Moments, number: int) -> LeastMemory:
        """Return the most that is needed at the moments of an operation."""
        values = moments.values
        is_apart = values.kinds[number] is Kind.APART
        self.work_left -= moments.arcs * (1 if is_apart else 2)
        found = [
            self._moment(flow, moments, number, when)
            for when in ((When.DURING,) if is_apart else (When.AFTER, When.BEFORE))
        ]
        own = _INSIDE.get(values.instructions[number].opcode)
        if own is not None:
            found.append(own(self, flow, moments, number))
        return max(found, key=lambda x: x.nbytes)

    def _moment(
        self,
        flow: ComputationDataflow,
        moments: Moments,
        number: int,
        when: When,
        inside: LeastMemory | None = None,
        without: Sequence[int] = (),
    ) -> LeastMemory:
        """What is needed at a moment, with what is needed inside of the operation then."""
        own = BindingMoment(flow.computation, flow, moments, number, when, tuple(without))
        nbytes = moments.least(number, when, without)
        if inside is None:
            return LeastMemory(nbytes, (own,), self.is_whole)
        return LeastMemory(nbytes + inside.nbytes, (own, *inside.moments), self.is_whole)

    def in_loop(self, flow: ComputationDataflow, moments: Moments, number: int) -> LeastMemory:
        """Return the least in memory within a loop: its state and what the caller keeps.

        What the loop leaves as it is counts with the caller's values.
        """
        x = moments.values.instructions[number]
        body = self.flows[while_body(x)]
        changed = set(body.changed_state)
        lasting = {v for k, v in enumerate(body.parameters) if k not in changed}
        state = [flow.leaves_of(x.operands[0])[k] for k in changed]
        without = sorted({*state, *moments.values.makes[number]})
        inside = self.of(body.computation, lasting)
        return self._moment(flow, moments, number, When.INSIDE, inside, without)

    def in_branch(self, flow: ComputationDataflow, moments: Moments, number: int) -> LeastMemory:
        """Return the least in memory within the branch that needs most."""
        values = moments.values
        x = values.instructions[number]
        found = []
        for branch, operand in zip(x.called_computations, x.operands[1:], strict=True):
            given = zip(self.flows[branch].parameters, flow.leaves_of(operand), strict=True)
            lasting = {inner for inner, outer in given if not values.nbytes[outer]}
            found.append(self.of(branch, lasting))
        inside = max(found, key=lambda x: x.nbytes)
        without = sorted({*values.reads[number], *values.makes[number]})
        return self._moment(flow, moments, number, When.INSIDE, inside, without)


_INSIDE: Final[
    dict[Opcode, Callable[[_Search, ComputationDataflow, Moments, int], LeastMemory]]
] = {Opcode.WHILE: _Search.in_loop, Opcode.CONDITIONAL: _Search.in_branch}


@final
class _Spread:
    """Numbers in a row, those first whose neighbours have had much: most is near to much."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._told = {-1: 0, len(numbers): 0}
        self._gaps: list[tuple[int, int, int]] = []
        self._between = (-1, len(numbers))
        self._add(*self._between)

    @property
    def is_left(self) -> bool:
        """Whether there is a number that was not returned."""
        return bool(self._gaps)

    def next(self) -> int:
        """Return the number in the middle of a gap, whose `found` is to be told."""
        _, before, after = heappop(self._gaps)
        self._between = before, after
        return self._numbers[(before + after) // 2]

    def tell(self, found: int) -> None:
        """Say how much the last number has."""
        before, after = self._between
        at = (before + after) // 2
        self._told[at] = found
        self._add(before, at)
        self._add(at, after)

    def _add(self, before: int, after: int) -> None:
        if after - before > 1:
            most = max(self._told[before], self._told[after])
            heappush(self._gaps, (-most, before, after))
