"""Plans of random compilations of a program: what is stored, by which kernels, in an order.

Each is one of the class of docs/optimality.md, so none may need less than the bound. Nothing of the
bound's network is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.least_memory.walks import Choices, Inner, Walk

from lowtide.analysis.call_graph import while_body
from lowtide.analysis.dataflow import Dataflow, dataflow
from lowtide.analysis.donation import asked_donations
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.least_memory.kinds import Kind
from lowtide.least_memory.values import values_of

Key = tuple[Computation, frozenset[int]]
"""A computation, and the values that are there in any case."""

_ANYWAY = 0.05
"""How often a change is kept that raises what is needed."""

_TRIES = 8
"""How often a choice is drawn that matters at the peak."""


@dataclass
class Called:
    """An operation that runs others: one of them at a time, with values that are in their bytes."""

    number: int
    callees: list[Key]
    own: set[int]


@dataclass
class Part:
    """What may be chosen in one computation, and what its operations run."""

    choices: Choices
    called: list[Called] = field(default_factory=list)


class RandomPlans:
    """Plans of a module at the stage "layout", drawn at random."""

    def __init__(self, module: Module) -> None:
        self.flows: Dataflow = dataflow(module.entry)
        flow = self.flows[module.entry]
        offered = set()
        for asked in asked_donations(module):
            leaves = [index for index, _ in asked.instruction.shape.leaves()]
            for index, value in zip(leaves, flow.leaves_of(asked.instruction), strict=True):
                if index[: len(asked.index)] == asked.index:
                    offered.add(value)
        lasting = {*flow.parameters} - offered
        self.lasting_bytes = sum([flow.value_bytes[v] for v in lasting])
        self.parts: dict[Key, Part] = {}
        """Callees first."""
        self.entry = self._part(module.entry, frozenset(lasting))

    def walk(self, random: Random) -> PlanWalk:
        """Return a walk from a plan that is drawn."""
        return PlanWalk(self, random)

    def nbytes(self, random: Random) -> int:
        """Return what a plan that is drawn needs, arguments included."""
        return self.walk(random).nbytes

    def _part(self, computation: Computation, lasting: frozenset[int]) -> Key:
        key = computation, lasting
        if key not in self.parts:
            part = Part(Choices(values_of(self.flows[computation], lasting)))
            for number, x in enumerate(part.choices.values.instructions):
                if x.opcode is Opcode.WHILE:
                    part.called.append(self._loop(computation, x, part.choices, number))
                elif x.opcode is Opcode.CONDITIONAL:
                    part.called.append(self._branches(computation, x, part.choices, number))
            self.parts[key] = part
        return key

    def _loop(self, caller: Computation, x: Instruction, choices: Choices, number: int) -> Called:
        body = self.flows[while_body(x)]
        changed = set(body.changed_state)
        lasting = frozenset([v for k, v in enumerate(body.parameters) if k not in changed])
        initial = self.flows[caller].leaves_of(x.operands[0])
        own = {initial[k] for k in changed} | {*choices.values.makes[number]}
        return Called(number, [self._part(body.computation, lasting)], own)

    def _branches(
        self, caller: Computation, x: Instruction, choices: Choices, number: int
    ) -> Called:
        values, callees = choices.values, []
        for branch, operand in zip(x.called_computations, x.operands[1:], strict=True):
            given = self.flows[caller].leaves_of(operand)
            pairs = zip(self.flows[branch].parameters, given, strict=True)
            lasting = frozenset([v for v, outer in pairs if not values.nbytes[outer]])
            callees.append(self._part(branch, lasting))
        return Called(number, callees, {*values.reads[number], *values.makes[number]})


class PlanWalk:
    """A plan of all computations of a module, which changes in steps; `nbytes` is what it needs."""

    def __init__(self, plans: RandomPlans, random: Random) -> None:
        self.plans, self.random = plans, random
        self.walks = {key: Walk(part.choices, random) for key, part in plans.parts.items()}
        self.flips = [(key, o) for key, walk in self.walks.items() for o in walk.flips()]
        self.peaks: dict[Key, int] = {}
        self._look({*self.walks})

    @property
    def nbytes(self) -> int:
        """What the plan needs, arguments included."""
        return self.plans.lasting_bytes + self.peaks[self.plans.entry]

    def plans_in_turn(self, count: int) -> Iterator[int]:
        """Yield what so many plans need: the one there is, and further ones, a step apart."""
        yield self.nbytes
        for _ in range(count - 1 if self.flips else 0):
            yield self._step()

    def _step(self) -> int:
        """Change one choice and return what is needed; what makes that more is mostly undone."""
        key, o = self._choice()
        walk, before = self.walks[key], self.peaks.copy()
        walk.flip(o)
        self._look({key})
        found = self.nbytes
        if self.peaks[key] > before[key] and self.random.random() >= _ANYWAY:
            walk.flip(o)
            self.peaks = before
        return found

    def _choice(self) -> tuple[Key, int]:
        """A choice that is there, one that matters at the peak where that is found soon."""
        for _ in range(_TRIES):
            key, o = self.random.choice(self.flips)
            if self.walks[key].is_at_peak(o):
                break
        return key, o

    def _look(self, changed: set[Key]) -> None:
        """Find the peaks of what changed, and of what runs that."""
        for key, part in self.plans.parts.items():
            if key in changed or any(not changed.isdisjoint(x.callees) for x in part.called):
                peak = self.walks[key].peak(self.inner(part))
                if self.peaks.get(key) != peak:
                    self.peaks[key] = peak
                    changed.add(key)

    def inner(self, part: Part) -> Inner:
        """Return what the operations of a computation need that run others."""
        return {
            x.number: (max([self.peaks[callee] for callee in x.callees]), x.own)
            for x in part.called
        }


def simulated(walk: Walk, inner: Inner) -> int:
    """Return what the plan of a walk needs, kernel by kernel: the same as its `peak`."""
    values, nbytes = walk.choices.values, walk.choices.nbytes
    kernels = [walk.kernels[o] for o in walk.order if o in walk.kernels]
    last = {v: step for step, kernel in enumerate(kernels) for v in kernel.reads}
    kept = values.kept
    live = {v for v in values.given if v in last or v in kept}
    most = sum([nbytes[v] for v in values.given])
    size = sum([nbytes[v] for v in live])
    for step, kernel in enumerate(kernels):
        made = sum([nbytes[v] for v in kernel.makes])
        gone = {
            v for v in (kernel.reads | kernel.makes) & (live | kernel.makes)
            if last.get(v, -1) <= step and v not in kept
        }  # fmt: skip
        left = size + made - sum([nbytes[v] for v in gone])
        around = kernel.around
        if around is not None and values.kinds[around] is Kind.APART:
            most = max(most, size + made)
        else:
            most = max(most, size, left + sum([nbytes[v] for v in gone & kernel.makes]))
        live = (live | kernel.makes) - gone
        if around in inner:
            inside, own = inner[around]
            most = max(most, inside + sum([nbytes[v] for v in live - own]))
        size = left
    return most
