"""Choice of values of a loop to stack, so that a later loop computes the rest of what it reads.

It is a least cut through the dataflow of the loop body. On one side is what the later loop cannot
compute, such as what a step carries; on the other side is what it reads. Each value that is cut is
stacked and costs the bytes of a slice for each step. What lies behind the cut is computed again.

The element that a step starts with and the one that it ends with are one sequence, read at two
places. So one stack, with one slot more, holds both. In one network the end then follows from the
start, and from nothing else; in others it follows from its operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Final

from lowtide.analysis.minimum_cut import minimum_cut
from lowtide.ir import Instruction, Opcode
from lowtide.ir.opcode import CONTROL_FLOW
from lowtide.ir.traversal import callees, post_order
from lowtide.ops.effects import has_side_effect
from lowtide.passes.editing import element_index
from lowtide.passes.matching import is_plain
from lowtide.records import dataclass
from lowtide.transforms.control_flow.hoisting import WORK, may_move
from lowtide.transforms.memory.loop_residuals.matches import Matches, is_work
from lowtide.transforms.memory.loop_residuals.stacks import Residuals

CONTRACTIONS: Final = frozenset((WORK - {Opcode.REDUCE}) | {Opcode.SCATTER})
"""Work that is not repeated unless asked for."""

_REPEATABLE: Final = frozenset({Opcode.OPTIMIZATION_BARRIER, Opcode.RNG_BIT_GENERATOR})
_NEVER_INSIDE: Final = frozenset({Opcode.CUSTOM_CALL, Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE})


@dataclass(frozen=True, slots=True)
class ResidualChoice:
    """What to stack, and what later loops compute from that.

    `stacked` are values of the body. `ends` are carried values at the end of a step, with those at
    its start, which are stacked: one slot further lies the end. `repeated` is what later loops
    compute, operands first, and `invariants` the elements passed on that it needs.
    """

    stacked: tuple[Instruction, ...]
    ends: Mapping[Instruction, Instruction]
    repeated: tuple[Instruction, ...]
    invariants: tuple[Instruction, ...]


def choose(
    residuals: Residuals, matches: Sequence[Matches], *, contractions: bool
) -> ResidualChoice | None:
    """Return what to stack for the least bytes; None where nothing is less than it is now.

    `matches` has what each reader needs. Of equal choices the one is taken that computes least
    again. Contractions, sorts and loops are computed again only where `contractions` says so, or
    the readers do already.
    """
    best: _Network | None = None
    for followed in _Ends:
        network = _Network(residuals, matches, followed, contractions=contractions)
        network.solve()
        if best is None or network.value < best.value:
            best = network
    assert best is not None
    before = sum([best.stacked_bytes(x.update) for x in residuals.stacks])
    if best.value > before:
        return None
    choice = best.choice()
    is_less_work = _work(choice) < sum([x.work for x in matches])
    return choice if best.value < before or is_less_work else None


def _work(choice: ResidualChoice) -> int:
    """How many operations compute, from what is stacked, what later loops need."""
    follows = {*choice.stacked, *choice.ends}
    count = 0
    for x in choice.repeated:
        if any(y in follows for y in x.operands):
            follows.add(x)
            count += is_work(x)
    return count


class _Ends(Enum):
    """Of which elements the value at the end of a step is had from the one at its start."""

    NONE = auto()
    NO_DETOUR = auto()
    ALL = auto()


class _Network:
    """The dataflow that leads to what is read, as a flow network of two vertices per value."""

    def __init__(
        self,
        residuals: Residuals,
        matches: Sequence[Matches],
        followed: _Ends,
        *,
        contractions: bool,
    ) -> None:
        self._residuals = residuals
        self._repeated = frozenset.intersection(*[x.repeated for x in matches])
        self._walk = residuals.walk
        self._contractions = contractions
        body = self._walk.loop.body
        self._parameter = body.parameters[0]
        self._invariants = frozenset(self._walk.loop.invariants())
        self._starts = self._walk.loop.starts
        self._free = {y for x in residuals.kept for y in x.values}
        self._needed = list(dict.fromkeys([use.value for x in matches for use in x.uses]))
        self._stacked = {x.update for x in residuals.stacks}
        self._values = self._relevant()
        self._numbers = {x: i for i, x in enumerate(self._values)}
        self._ends = self._followed_ends(followed)
        self._sink_side: frozenset[int] = frozenset()
        self.value = 0

    def stacked_bytes(self, x: Instruction) -> int:
        """Return what it takes to stack a value."""
        return x.shape.nbytes * self._walk.steps

    # -- what there is -------------------------------------------------------------------------

    def _relevant(self) -> list[Instruction]:
        """What is read and all it is computed from, operands first, without what is known."""
        found = set(self._needed)
        waiting = list(self._needed)
        while waiting:
            x = waiting.pop()
            if x in self._free or self._is_source(x):
                continue
            fresh = [y for y in x.operands if y not in found and not self._is_known(y)]
            found.update(fresh)
            waiting += fresh
        order = post_order(self._walk.loop.body)
        return [x for x in order if x in found and not self._is_known(x)]

    def _is_known(self, x: Instruction) -> bool:
        """Whether later loops have a value at hand, without a stack that is only for them."""
        if x in self._walk.affines or x.opcode is Opcode.CONSTANT or x in self._free:
            return True
        return self._is_invariant(x) and not self._held_bytes(x)

    def _element(self, x: Instruction) -> int | None:
        is_carried = x.opcode is Opcode.GET_TUPLE_ELEMENT and x.operands[0] is self._parameter
        return element_index(x) if is_carried else None

    def _is_invariant(self, x: Instruction) -> bool:
        return self._element(x) in self._invariants

    def _held_bytes(self, x: Instruction) -> int:
        """What it takes to hold an invariant until the later loops have run."""
        index = self._element(x)
        assert index is not None
        start = self._starts.known(index)
        if start is None:
            return x.shape.leaf_nbytes
        if start.opcode in (Opcode.PARAMETER, Opcode.CONSTANT):
            return 0
        if all(start in reader.walk.carried for reader in self._residuals.readers):
            return 0
        return x.shape.leaf_nbytes

    def _is_source(self, x: Instruction) -> bool:
        """Whether later loops cannot compute a value, or are not to."""
        return self._element(x) is not None or not self._may_repeat(x)

    def _may_repeat(self, x: Instruction) -> bool:
        allowed = self._contractions or x in self._repeated
        if x.opcode in _REPEATABLE:
            return not x.has_control_edges
        if x.opcode in CONTROL_FLOW:
            return allowed and not x.has_control_edges and is_pure(x)
        return may_move(x) and (allowed or x.opcode not in CONTRACTIONS)

    def _followed_ends(self, followed: _Ends) -> dict[Instruction, Instruction]:
        """What elements are at the end of a step, and at its start.

        Not those that later loops can compute from nothing. It may be a detour where the end
        neither depends on the start nor takes work that is not to be repeated.
        """
        carried = [x for x in self._values if self._element(x) is not None]
        bits = {x: 2 << i for i, x in enumerate(carried) if not self._is_invariant(x)}
        marks: dict[Instruction, int] = {}
        for x in self._values:
            marks[x] = bits.get(x, int(self._is_source(x)))
            for y in x.operands:
                marks[x] |= marks.get(y, 0)
        ends: dict[Instruction, Instruction] = {}
        for x in bits if followed is not _Ends.NONE else ():
            end = self._walk.loop.results[element_index(x)]
            if end not in self._numbers or end in bits or not is_plain(x.shape):
                continue
            detour = not (marks[end] & bits[x] or self._is_source(end))
            if marks[end] and (followed is _Ends.ALL or not detour):
                ends.setdefault(end, x)
        return ends

    # -- the least cut -------------------------------------------------------------------------

    def solve(self) -> None:
        """Find the least cut nearest to what is read, and its value."""
        source, sink = 2 * len(self._values), 2 * len(self._values) + 1
        capacities = [self._capacity(x) for x in self._values]
        endless = 1 + sum([x for x in capacities if x is not None])
        arcs = [
            (2 * i, 2 * i + 1, endless if capacity is None else capacity)
            for i, capacity in enumerate(capacities)
        ]
        arcs += [(tail, head, endless) for tail, head in self._leads_to(source)]
        numbers = [self._numbers[x] for x in self._needed if x in self._numbers]
        arcs += [(2 * number + 1, sink, endless) for number in numbers]
        found = minimum_cut(arcs, source, sink)
        self.value = found.value
        self._sink_side = found.sink_side

    def _capacity(self, x: Instruction) -> int | None:
        """What it takes to have a value in later loops; None where it cannot be stacked."""
        if self._is_invariant(x):
            return self._held_bytes(x)
        if not is_plain(x.shape) and x not in self._stacked:
            return None
        return self.stacked_bytes(x)

    def _leads_to(self, source: int) -> Iterator[tuple[int, int]]:
        """The arcs from what a value is made of to the value."""
        numbers = self._numbers
        for x, i in numbers.items():
            if x in self._ends:
                yield 2 * numbers[self._ends[x]] + 1, 2 * i
            elif self._is_source(x):
                yield source, 2 * i
            else:
                for y in dict.fromkeys(x.operands):
                    if y in numbers:
                        yield 2 * numbers[y] + 1, 2 * i

    # -- what it says --------------------------------------------------------------------------

    def choice(self) -> ResidualChoice:
        """Return what the cut found says."""
        stacked: dict[Instruction, None] = {}
        invariants: dict[Instruction, None] = {}
        ends: dict[Instruction, Instruction] = {}
        repeated = set()
        waiting, seen = list(self._needed), set(self._needed)
        while waiting:
            x = waiting.pop()
            fresh: list[Instruction] = []
            if self._is_invariant(x):
                invariants[x] = None
            elif x in self._free or self._is_cut(x):
                stacked[x] = None
            elif x in self._ends:
                ends[x] = self._ends[x]
                fresh = [self._ends[x]]
            elif x not in self._walk.affines:
                repeated.add(x)
                fresh = [y for y in dict.fromkeys(x.operands) if y not in seen]
            seen.update(fresh)
            waiting += fresh
        order = post_order(self._walk.loop.body)
        made = tuple([x for x in order if x in repeated])
        return ResidualChoice(tuple(stacked), ends, made, tuple(invariants))

    def _is_cut(self, x: Instruction) -> bool:
        i = self._numbers.get(x)
        return i is not None and 2 * i not in self._sink_side and 2 * i + 1 in self._sink_side


def is_pure(x: Instruction) -> bool:
    """Whether control flow may be run again: without side effects, and with equal results."""
    if has_side_effect(x):
        return False
    waiting = list(x.called_computations)
    seen = set(waiting)
    while waiting:
        computation = waiting.pop()
        if any(y.opcode in _NEVER_INSIDE for y in computation.instructions.values()):
            return False
        fresh = [c for c in callees(computation) if c not in seen]
        seen.update(fresh)
        waiting += fresh
    return True
