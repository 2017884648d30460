"""The walk through a module that decides what one device does: how values lie, what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final, TypeAlias, final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.computation import Computation
from lowtide.ir.errors import unsupported
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.ir.traversal import post_order
from lowtide.ops.factors.record import arrays_of
from lowtide.ops.reducers import sum_of
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.spmd.annotations import ModuleShardings, TilingWish
from lowtide.spmd.cells import ArrayCells
from lowtide.spmd.choice import OperationSplit, Question
from lowtide.spmd.effects import calling_device, has_tiles
from lowtide.spmd.leaves import element_of, exchange, first_alone
from lowtide.spmd.loop_states import accumulated, unchanged
from lowtide.spmd.manual import border_wishes, is_entrance
from lowtide.spmd.placed import PlacedArray, SentBytes, TilingRequest
from lowtide.spmd.resharding import local_shape
from lowtide.spmd.roles import Role
from lowtide.spmd.wire import KINDS, sent_bytes

Arrays: TypeAlias = list[PlacedArray]
"""Those of one value, in the order of its leaves."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A value that a call asks about, for whom `config` says, and how it lies."""

    config: str
    tiling: Tiling


class Follows(StrEnum):
    """Which values are wanted as their readers took them in the last draft."""

    NOWHERE = "nowhere"
    RESULTS = "results"
    EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Policy:
    """How values lie of which little is known.

    With `replicates_unknown`, one of which nothing is known is wanted whole by those that make it.
    With `follows`, one that nobody asked a sharding of is wanted as all its readers took it last
    time: everywhere, or only what leads to nothing but results.
    """

    replicates_unknown: bool
    follows: Follows = Follows.NOWHERE

    @property
    def passes(self) -> int:
        """How often a program is written anew with what the last draft took of its values."""
        return 3 if self.follows is Follows.NOWHERE else 6


@dataclass(frozen=True, slots=True)
class DraftFindings:
    """What a draft tells the next one, by cell: the tiling to want, and what readers took.

    `terms` has tilings in which loops may carry terms of sums from step to step.
    """

    asked: Mapping[int, Tiling] = field(default_factory=dict)
    requests: Mapping[int, tuple[TilingRequest, ...]] = field(default_factory=dict)
    terms: Mapping[int, Tiling] = field(default_factory=dict)


def leading_to_results(cells: ArrayCells) -> frozenset[int]:
    """Return the cells of the entry that only single elements of its results are computed from."""
    entry = next(iter(cells.numbers)).parent.module.entry
    found: set[Instruction] = set()
    for x in reversed(post_order(entry)):
        if all(user in found and _keeps_elements(user) for user in x.users):
            found.add(x)
    return frozenset([number for x in found for number in cells.numbers[x]])


def _keeps_elements(x: Instruction) -> bool:
    moves = (Opcode.TUPLE, Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.CUSTOM_CALL)
    return TABLE[x.opcode].elementwise or x.opcode in moves


@final
class DecidingWalk:
    """Goes through computations in order and decides what one device does; nothing is written.

    `splits` has what was decided of each instruction, in the order of the walk: in which tilings it
    takes the leaves of its operands, and makes those of its results. `sent` has the bytes of the
    collectives that this takes, `work` what is computed, in bytes that a link carries meanwhile.
    """

    def __init__(
        self, shardings: ModuleShardings, cells: ArrayCells, findings: DraftFindings, policy: Policy
    ) -> None:
        self.shardings = shardings
        self.cells = cells
        self.splits: dict[Instruction, OperationSplit] = {}
        self.inspections: list[Inspected] = []
        self.work = 0.0
        self.sent = SentBytes(shardings.grid)
        self._asked = findings.asked
        self._requests = findings.requests
        self._policy = policy
        self._made: dict[int, PlacedArray] = {}
        self._found: dict[int, Tiling] = {}
        self._carries = findings.terms
        self._terms: dict[int, Tiling] = {}
        self._last = leading_to_results(cells) if policy.follows is Follows.RESULTS else frozenset()

    def findings(self) -> DraftFindings:
        """Return the tilings that readers took values in, where that may be wanted of them.

        Of a value of which nothing is known it is the first one; of others, what all agree on.
        """
        asked: dict[int, Tiling] = {}
        requests: dict[int, tuple[TilingRequest, ...]] = {}
        for number, placed in self._made.items():
            cell = self.cells.cells[number]
            taken = [r.tiling for r in placed.requests if not r.tiling.partial]
            if self._follows(number):
                requests[number] = tuple(placed.requests)
            if not taken or cell.is_given:
                continue
            agree = self._follows(number) and all(tiling == taken[0] for tiling in taken)
            if cell.wanted is None or agree:
                asked[number] = taken[0]
        return DraftFindings({**asked, **self._found}, requests, self._terms)

    def _follows(self, number: int) -> bool:
        follows = self._policy.follows
        if follows is Follows.RESULTS:
            return number in self._last
        return follows is Follows.EVERYWHERE

    def moved_bytes(self, number: int) -> float:
        """Return the bytes of the forms in which the value of a cell was taken, without the first.

        It has to be a parameter's or an operation's.
        """
        placed = self._made.get(number)
        if placed is None:
            return 0.0
        return sum([placed.bytes_from_first(tiling) for tiling in placed.forms])

    def keep(self, numbers: Sequence[int], leaves: Sequence[PlacedArray]) -> None:
        """Remember which value each cell has become, and tell it what is foreseen."""
        for number, leaf in zip(numbers, leaves, strict=True):
            self._made[number] = leaf
            leaf.foreseen = self._requests.get(number, ())

    def _carried(self, x: Instruction, start: Sequence[PlacedArray] = ()) -> list[Tiling]:
        """Return the tilings of what loops and branches pass on: as known, or as made last time.

        What a loop does not change stays as it is in `start`, unless values are gathered early.
        """
        kept = unchanged(x) if start and not self._policy.replicates_unknown else frozenset()
        found = []
        for place, number in enumerate(self.cells.numbers[x]):
            cell = self.cells.cells[number]
            tiling = cell.wanted or self._asked.get(number, cell.tiling)
            if cell.wanted is None and place in kept:
                tiling = start[place].tiling.whole()
            found.append(self._carries.get(number, tiling))
        return found

    def _observe(self, x: Instruction, leaves: Sequence[PlacedArray]) -> None:
        """Keep the tilings in which a body or branch makes what nothing is known of."""
        addends = accumulated(x) if x.opcode is Opcode.WHILE else {}
        for place, (number, leaf) in enumerate(zip(self.cells.numbers[x], leaves, strict=True)):
            addend = (
                self._made.get(self.cells.numbers[addends[place]][0]) if place in addends else None
            )
            made = addend.tiling if addend else leaf.tiling.whole()
            if made.partial and made.reduction is Opcode.ADD:
                self._terms[number] = made
            if self.cells.cells[number].wanted is None:
                self._found[number] = leaf.tiling.whole()

    def _wanted(self, number: int) -> Tiling | None:
        cell = self.cells.cells[number]
        asked = self._asked.get(number)
        if self._follows(number) and asked is not None and not cell.is_given:
            return asked
        known = cell.wanted or asked
        return cell.tiling if known is None and self._policy.replicates_unknown else known

    def run(self, computation: Computation, given: Sequence[Sequence[PlacedArray]]) -> Arrays:
        """Decide on a computation for the leaves of its parameters; return those of its root."""
        values: dict[Instruction, Arrays] = {}
        for parameter, leaves in zip(computation.parameters, given, strict=True):
            values[parameter] = list(leaves)
        for x in post_order(computation):
            role = self.cells.memo.role(x)
            if role is not Role.PARAMETER:
                values[x] = _DECIDERS[role](self, x, [values[y] for y in x.operands])
        return values[computation.root]

    def placed(self, shapes: Sequence[Shape], tilings: Sequence[Tiling]) -> Arrays:
        """Return arrays that are made in tilings."""
        pairs = zip(shapes, tilings, strict=True)
        return [PlacedArray.of(self.sent, shape, tiling) for shape, tiling in pairs]

    def exchanged(self, shape: Shape, wish: TilingWish | None, tiling: Tiling) -> None:
        """Count the tiles of an array that are moved to devices in another order, or from them."""
        if exchange(wish, tiling, shape) is not None:
            self.sent.add(float(local_shape(shape, tiling, self.sent.grid).leaf_nbytes))

    def _decided(
        self, x: Instruction, leaves: Arrays, operands: Sequence[Tiling], results: Sequence[Tiling]
    ) -> Arrays:
        """Decide in which tilings an instruction takes and makes arrays; return those it makes."""
        self.splits[x] = OperationSplit({}, tuple(operands), tuple(results), 0.0)
        for leaf, tiling in zip(leaves, operands, strict=True):
            leaf.take(tiling, x.name)
        return self.placed(arrays_of(x.shape), results)

    # -- structure -----------------------------------------------------------------------------

    def mark(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the leaves of all operands: what is asked of them they have already."""
        return [leaf for leaves in operands for leaf in leaves]

    def group(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return nothing: values of a group are related as their cells are."""
        return []

    def element(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the leaves of one element of a tuple."""
        return element_of(x, operands[0])

    def constant(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return a constant, which all devices have."""
        return self._decided(x, [], (), [replicated(shape.rank) for shape in arrays_of(x.shape)])

    def inspection(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Remember how the value lies that a call asks about."""
        ((leaf,),) = operands
        tiling = self.shardings.outward(None, self._own_tiling(x.operands[0], leaf))
        self.inspections.append(Inspected(x.annotations.backend_config, tiling))
        return []

    def effect(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the results of a call with effects, made by each device or by one of them.

        It is made with whole arrays, or with the tiles of each device where it asks for these.
        """
        is_tiled = has_tiles(x)
        taken = [
            self._own_tiling(y, leaf) if is_tiled else replicated(leaf.shape.rank)
            for y, own in zip(x.operands, operands, strict=True)
            for leaf in own
        ]
        results = arrays_of(x.shape)
        whole = [replicated(s.rank) for s in results]
        if not is_tiled and calling_device(x, self.shardings.reader) is not None:
            axes = tuple(range(len(self.sent.grid.sizes)))
            whole = [
                Tiling(t.axes, axes, sum_of(s)) if axes and s.is_array else t
                for s, t in zip(results, whole, strict=True)
            ]
        found = self._decided(x, [leaf for own in operands for leaf in own], taken, whole)
        self.keep(self.cells.numbers[x], found)
        return found

    def _own_tiling(self, x: Instruction, leaf: PlacedArray) -> Tiling:
        """Return how an operand lies for those who only look at it: as it is wanted, or made.

        What is made is shown as the axes of the meshes can say it: finer cuts are our own.
        """
        wanted = self.cells.of(x)[0].wanted if x.shape.is_array else None
        return wanted or self.shardings.outward(None, leaf.tiling.whole())

    def border(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the leaves on the other side of a border: inside, each tile is a whole array."""
        leaves = [leaf for own in operands for leaf in own]
        wishes, shapes = border_wishes(x, self.shardings), arrays_of(x.shape)
        outside = [wish.tiling for wish in wishes]
        inside = [replicated(len(tiling.axes)) for tiling in outside]
        enters = is_entrance(x)
        taken, made = (outside, inside) if enters else (inside, outside)
        found = self._decided(x, leaves, taken, made)
        whole = [leaf.shape for leaf in leaves] if enters else shapes
        for shape, wish in zip(whole, wishes, strict=True):
            self.exchanged(shape, wish, wish.tiling)
        self.keep(self.cells.numbers[x], found)
        return found

    def collective(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return what a collective of a manual region makes, which is written as it is."""
        leaves = [leaf for own in operands for leaf in own]
        if x.opcode in KINDS:
            self.sent.add(sent_bytes(x, self.sent.grid.count))
        taken = [replicated(leaf.shape.rank) for leaf in leaves]
        return self._decided(x, leaves, taken, [replicated(s.rank) for s in arrays_of(x.shape)])

    def loop(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the state after a loop, which has one tiling per leaf all the time."""
        tilings = self._carried(x, operands[0])
        found = self._decided(x, operands[0], tilings, tilings)
        trips, times = trip_count(x), self.sent.times
        self.sent.times *= trips.count if trips else 1
        condition, body = x.called_computations
        whole = [replicated(s.rank) for s in arrays_of(condition.root.shape)]
        self._callee(condition, x.shape, tilings, whole)
        self._callee(body, x.shape, tilings, tilings, site=x)
        self.sent.times = times
        return found

    def _callee(
        self,
        computation: Computation,
        shape: Shape,
        tilings: Sequence[Tiling],
        results: Sequence[Tiling],
        site: Instruction | None = None,
    ) -> None:
        """Decide on a computation of one parameter; a site learns how its results are made."""
        leaves = self.run(computation, [self.placed(arrays_of(shape), tilings)])
        if site is not None:
            self._observe(site, leaves)
        for leaf, tiling in zip(leaves, results, strict=True):
            leaf.take(tiling)

    def branches(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return what the branches agree on; the choice is the same on all devices."""
        results = self._carried(x)
        chosen, *given = operands
        tilings = [[leaf.tiling.whole() for leaf in leaves] for leaves in given]
        chosen[0].take(replicated(0))
        for branch, leaves, own, operand in zip(
            x.called_computations, given, tilings, x.operands[1:], strict=True
        ):
            for leaf, tiling in zip(leaves, own, strict=True):
                leaf.take(tiling)
            self._callee(branch, operand.shape, own, results, site=x)
        taken = [replicated(0), *[tiling for own in tilings for tiling in own]]
        self.splits[x] = OperationSplit({}, tuple(taken), tuple(results), 0.0)
        return self.placed(arrays_of(x.shape), results)

    # -- operations ----------------------------------------------------------------------------

    def host(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Raise UnsupportedOpError."""
        raise unsupported(
            x,
            "talks to the host or to other programs, which a program on several devices does by "
            "custom calls only",
        )

    def operation(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return what an operation makes, split as costs the least."""
        leaves = [leaf for own in operands for leaf in own]
        numbers = self.cells.numbers[x]
        wanted = [self._wanted(number) for number in numbers]
        weighs = not all(self._follows(number) for number in numbers)
        alone = [
            len(y.users) == 1 for y, own in zip(x.operands, operands, strict=True) for _ in own
        ]
        rule, grid = self.cells.rule(x), self.sent.grid
        question = Question(grid, x, rule, leaves, wanted, alone, weighs_memory=weighs)
        split = self.splits[x] = self.cells.split(question)
        for leaf, tiling in zip(leaves, split.operands, strict=True):
            leaf.take(tiling, x.name)
        for nbytes in self.cells.own_bytes(x, split):
            self.sent.add(nbytes)
        self.work += self.sent.times * split.work
        found = self.placed(arrays_of(x.shape), split.results)
        self.keep(numbers, found)
        return found

    def drawn(self, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return random numbers as the first device draws them: others would draw their own."""
        self.operation(x, operands)
        found = self.placed([x.shape], [first_alone(x.shape, self.sent.grid)])
        self.keep(self.cells.numbers[x], found)
        return found


_Decider = Callable[[DecidingWalk, Instruction, Sequence[Arrays]], Arrays]

_DECIDERS: Final[dict[Role, _Decider]] = {
    Role.BORDER: DecidingWalk.border,
    Role.BRANCHES: DecidingWalk.branches,
    Role.COLLECTIVE: DecidingWalk.collective,
    Role.CONSTANT: DecidingWalk.constant,
    Role.DRAWN: DecidingWalk.drawn,
    Role.EFFECT: DecidingWalk.effect,
    Role.ELEMENT: DecidingWalk.element,
    Role.GROUP: DecidingWalk.group,
    Role.HOST: DecidingWalk.host,
    Role.INSPECTION: DecidingWalk.inspection,
    Role.LOOP: DecidingWalk.loop,
    Role.MARK: DecidingWalk.mark,
    Role.OPERATION: DecidingWalk.operation,
}
