"""The walk through a module that writes what one device does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias, final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.ir.attributes import (
    Collective,
    CollectivePermute,
    CustomCall,
    GetTupleElement,
    Parameter,
)
from lowtide.ir.computation import Computation
from lowtide.ir.errors import unsupported
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.sharding_forms import sharding_of
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.factors.record import arrays_of
from lowtide.ops.reducers import sum_of
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.spmd.annotations import (
    BARRIER_TARGETS,
    CONSTRAINT_TARGETS,
    GROUP_TARGET,
    INSPECTION_TARGET,
    ModuleShardings,
)
from lowtide.spmd.cells import ArrayCells
from lowtide.spmd.choice import LocalOp, Question
from lowtide.spmd.effects import call_on, calling_device, has_tiles
from lowtide.spmd.emitter import DeviceProgram, Emitter
from lowtide.spmd.leaves import in_order, local_tree, off_order, placed_leaves, result_of, tree
from lowtide.spmd.local_ops import write
from lowtide.spmd.loop_states import accumulated, unchanged
from lowtide.spmd.manual import border_wishes, is_entrance, is_exit
from lowtide.spmd.placed import PlacedArray, TilingRequest

Arrays: TypeAlias = list[PlacedArray]
"""Those of one value, in the order of its leaves."""

_DRAWN: Final = (Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE)
"""Operations that draw random numbers from a state of the device."""


@dataclass(frozen=True, slots=True)
class SplitReason:
    """What became of one instruction: its sharding, the bytes that it moves, and why."""

    instruction: str
    opcode: str
    sharding: str
    nbytes: float
    why: str


@dataclass(frozen=True, slots=True)
class SplitNote:
    """What is kept of one instruction for its reason, which is put in words where it is asked for.

    `why` says where its tiling comes from, `whole` why dimensions of it are not split.
    """

    instruction: Instruction
    tilings: Sequence[Tiling]
    nbytes: float
    why: str
    whole: str

    def reason(self, grid: DeviceGrid) -> SplitReason:
        """Return the reason in words."""
        x = self.instruction
        text = ", ".join([_sharding_text(t.whole(), grid) for t in self.tilings])
        why = f"{self.why}; {self.whole} is not split" if self.nbytes and self.whole else self.why
        return SplitReason(x.name, x.opcode.value, text, self.nbytes, why)


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
class ProgramWalk:
    """Goes through computations in order and writes what one device does."""

    def __init__(
        self,
        target: DeviceProgram,
        shardings: ModuleShardings,
        cells: ArrayCells,
        findings: DraftFindings,
        policy: Policy,
    ) -> None:
        self.target = target
        self.shardings = shardings
        self.cells = cells
        self.notes: list[SplitNote] = []
        self.inspections: list[Inspected] = []
        self.work = 0.0
        self._asked = findings.asked
        self._requests = findings.requests
        self._policy = policy
        self._made: dict[int, PlacedArray] = {}
        self._found: dict[int, Tiling] = {}
        self._carries = findings.terms
        self._terms: dict[int, Tiling] = {}
        self._trips = 1
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

    def run(
        self, emitter: Emitter, computation: Computation, given: Sequence[Sequence[PlacedArray]]
    ) -> Arrays:
        """Write a computation for the leaves of its parameters; return those of its root."""
        values: dict[Instruction, Arrays] = {}
        for parameter, leaves in zip(computation.parameters, given, strict=True):
            values[parameter] = list(leaves)
        for x in post_order(computation):
            if x.opcode is Opcode.PARAMETER:
                continue
            emitter.origin = x
            handler = _STRUCTURE.get(x.opcode, ProgramWalk.operation)
            values[x] = handler(self, emitter, x, [values[y] for y in x.operands])
            emitter.origin = None
        return values[computation.root]

    # -- structure -----------------------------------------------------------------------------

    def tuple(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the leaves of all operands."""
        return [leaf for leaves in operands for leaf in leaves]

    def element(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the leaves of one element of a tuple."""
        index = x.attributes_as(GetTupleElement).index
        before = x.operands[0].shape.tuple_shapes[:index]
        first = sum([len(arrays_of(shape)) for shape in before])
        return operands[0][first : first + len(arrays_of(x.shape))]

    def constant(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return a constant, which all devices have."""
        made = emitter.like(x, (), x.shape.with_default_layout())
        tilings = [replicated(shape.rank) for shape in arrays_of(x.shape)]
        return placed_leaves(emitter, made, x.shape, tilings)

    def custom_call(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the operand of a constraint, in the tiling asked for where that is inside."""
        target = x.attributes_as(CustomCall).target
        if target in CONSTRAINT_TARGETS or target in BARRIER_TARGETS:
            return operands[0]
        if target == GROUP_TARGET:
            return []
        if target == INSPECTION_TARGET:
            ((leaf,),) = operands
            tiling = self.shardings.outward(None, self._own_tiling(x.operands[0], leaf))
            self.inspections.append(Inspected(x.annotations.backend_config, tiling))
            return []
        if is_entrance(x) or is_exit(x):
            return self._border(emitter, x, [leaf for own in operands for leaf in own])
        if has_side_effect(x):
            return self._effect(emitter, x, operands)
        return self.operation(emitter, x, operands)

    def _effect(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the results of a call with effects, made by each device or by one of them.

        It is made with whole arrays, or with the tiles of each device where it asks for these.
        """
        is_tiled = has_tiles(x)
        given = []
        for y, own in zip(x.operands, operands, strict=True):
            whole = [replicated(leaf.shape.rank) for leaf in own]
            tilings = [self._own_tiling(y, leaf) for leaf in own] if is_tiled else whole
            tiles = [leaf.to(t, x.name) for leaf, t in zip(own, tilings, strict=True)]
            given.append(tree(emitter, y.shape, tiles))
        results = arrays_of(x.shape)
        device = None if is_tiled else calling_device(x, self.shardings.reader)
        if device is None:
            made = emitter.like(x, given, x.shape)
        else:
            made = call_on(emitter, x, given, device)
        axes = () if device is None else tuple(range(len(emitter.grid.sizes)))
        tilings = [
            Tiling(whole.axes, axes, sum_of(s)) if axes and s.is_array else whole
            for s, whole in zip(results, [replicated(s.rank) for s in results], strict=True)
        ]
        found = placed_leaves(emitter, made, x.shape, tilings)
        self.keep(self.cells.numbers[x], found)
        return found

    def _own_tiling(self, x: Instruction, leaf: PlacedArray) -> Tiling:
        """Return how an operand lies for those who only look at it: as it is wanted, or made.

        What is made is shown as the axes of the meshes can say it: finer cuts are our own.
        """
        wanted = self.cells.of(x)[0].wanted if x.shape.is_array else None
        return wanted or self.shardings.outward(None, leaf.tiling.whole())

    def _border(self, emitter: Emitter, x: Instruction, given: Sequence[PlacedArray]) -> Arrays:
        """Return the leaves on the other side of a border: inside, each tile is a whole array."""
        found = []
        wishes = border_wishes(x, self.shardings)
        for leaf, wish, shape in zip(given, wishes, arrays_of(x.shape), strict=True):
            inside, outside = replicated(shape.rank), wish.tiling
            if is_entrance(x):
                made = in_order(emitter, leaf.to(outside, x.name), wish, outside)
                found.append(PlacedArray.of(emitter, shape, inside, made))
            else:
                made = off_order(emitter, leaf.to(inside, x.name), wish, outside)
                found.append(PlacedArray.of(emitter, shape, outside, made))
        self.keep(self.cells.numbers[x], found)
        return found

    def collective(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return a collective of a manual region as it is written, on a channel of its own."""
        tiles = [leaf.to(replicated(leaf.shape.rank), x.name) for own in operands for leaf in own]
        attributes = x.attributes
        if isinstance(attributes, Collective | CollectivePermute):
            attributes = replace(attributes, channel_id=self.target.channel())
        whole = [replicated(shape.rank) for shape in arrays_of(x.shape)]
        shape = local_tree(x.shape, whole, emitter.grid)
        made = emitter.like(x, tiles, shape, attributes)
        return placed_leaves(emitter, made, x.shape, whole)

    def loop(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return the state after a loop, which has one tiling per leaf all the time."""
        tilings = self._carried(x, operands[0])
        start = result_of(emitter, x.shape, operands[0], tilings)
        trips = trip_count(x)
        self._trips *= trips.count if trips else 1
        condition, body = [
            self._callee(x, c, x.shape, tilings, kind)
            for c, kind in zip(x.called_computations, (None, tilings), strict=True)
        ]
        self._trips //= max(trips.count if trips else 1, 1)
        made = emitter.add(Opcode.WHILE, (start,), x.attributes, (condition, body), start.shape)
        return placed_leaves(emitter, made, x.shape, tilings)

    def _callee(
        self,
        site: Instruction,
        computation: Computation,
        shape: Shape,
        tilings: Sequence[Tiling],
        results: Sequence[Tiling] | None,
    ) -> Computation:
        """Write a computation of one parameter; results None: replicated."""
        made = self.target.module.add_computation(computation.name)
        emitter = Emitter(self.target, made)
        local = local_tree(shape, tilings, emitter.grid)
        source = computation.parameters[0]
        parameter = made.add(Opcode.PARAMETER, local, (), Parameter(0), (), source.name)
        given = placed_leaves(emitter, parameter, shape, tilings)
        leaves = self.run(emitter, computation, [given])
        wanted = results
        if results is not None:
            self._observe(site, leaves)
        if wanted is None:
            wanted = [replicated(s.rank) for s in arrays_of(computation.root.shape)]
        made.root = result_of(emitter, computation.root.shape, leaves, wanted)
        return made

    def conditional(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return what the branches agree on; the choice is the same on all devices."""
        chosen = operands[0][0]
        results = self._carried(x)
        sources: list[Instruction] = [chosen.to(replicated(0))]
        branches = []
        for branch, leaves, operand in zip(
            x.called_computations, operands[1:], x.operands[1:], strict=True
        ):
            tilings = [leaf.tiling.whole() for leaf in leaves]
            sources.append(result_of(emitter, operand.shape, leaves, tilings))
            branches.append(self._callee(x, branch, operand.shape, tilings, results))
        shape = local_tree(x.shape, results, emitter.grid)
        made = emitter.add(Opcode.CONDITIONAL, tuple(sources), x.attributes, tuple(branches), shape)
        return placed_leaves(emitter, made, x.shape, results)

    # -- operations ----------------------------------------------------------------------------

    def operation(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return what an operation makes, split as costs the least."""
        if has_side_effect(x) and x.opcode not in _DRAWN:
            raise unsupported(
                x,
                "talks to the host or to other programs, which a program on several devices does "
                "by custom calls only",
            )
        leaves = [leaf for own in operands for leaf in own]
        rule = self.cells.rule(x)
        numbers = self.cells.numbers[x]
        wanted = [self._wanted(number) for number in numbers]
        weighs = not all(self._follows(number) for number in numbers)
        alone = [
            len(y.users) == 1 for y, own in zip(x.operands, operands, strict=True) for _ in own
        ]
        question = Question(emitter.grid, x, rule, leaves, wanted, alone, weighs_memory=weighs)
        split = self.cells.split(question)
        tiles = [
            leaf.to(tiling, x.name) for leaf, tiling in zip(leaves, split.operands, strict=True)
        ]
        at, given = 0, []
        for operand, own in zip(x.operands, operands, strict=True):
            given.append(tree(emitter, operand.shape, tiles[at : at + len(own)]))
            at += len(own)
        shape = local_tree(x.shape, split.results, emitter.grid)
        made = write(emitter, LocalOp(x, rule, split, given, shape))
        self._note(x, split.results, split.nbytes, rule.why)
        self.work += self._trips * split.work
        found = placed_leaves(emitter, made, x.shape, split.results)
        self.keep(numbers, found)
        return found

    def drawn(self, emitter: Emitter, x: Instruction, operands: Sequence[Arrays]) -> Arrays:
        """Return random numbers as the first device draws them: others would draw their own."""
        (made,) = [leaf.to(leaf.tiling) for leaf in self.operation(emitter, x, operands)]
        axes = tuple(range(len(emitter.grid.sizes)))
        terms = Tiling(replicated(x.shape.rank).axes, axes)
        masked = emitter.masked(made, axes, terms.reduction)
        found = [PlacedArray.of(emitter, x.shape, terms, masked)]
        self.keep(self.cells.numbers[x], found)
        return found

    def _note(self, x: Instruction, tilings: Sequence[Tiling], nbytes: float, why: str) -> None:
        cells = self.cells.of(x)
        self.notes.append(SplitNote(x, tilings, nbytes, cells[0].why if cells else "", why))


@lru_cache(maxsize=4096)
def _sharding_text(tiling: Tiling, grid: DeviceGrid) -> str:
    return str(sharding_of(tiling, grid))


_Handler = Callable[[ProgramWalk, Emitter, Instruction, Sequence[Arrays]], Arrays]

_STRUCTURE: Final[dict[Opcode, _Handler]] = {
    Opcode.ALL_GATHER: ProgramWalk.collective,
    Opcode.ALL_REDUCE: ProgramWalk.collective,
    Opcode.ALL_TO_ALL: ProgramWalk.collective,
    Opcode.COLLECTIVE_BROADCAST: ProgramWalk.collective,
    Opcode.COLLECTIVE_PERMUTE: ProgramWalk.collective,
    Opcode.REDUCE_SCATTER: ProgramWalk.collective,
    Opcode.RAGGED_ALL_TO_ALL: ProgramWalk.collective,
    **dict.fromkeys(_DRAWN, ProgramWalk.drawn),
    Opcode.CONDITIONAL: ProgramWalk.conditional,
    Opcode.CONSTANT: ProgramWalk.constant,
    Opcode.CUSTOM_CALL: ProgramWalk.custom_call,
    Opcode.GET_TUPLE_ELEMENT: ProgramWalk.element,
    Opcode.OPTIMIZATION_BARRIER: ProgramWalk.tuple,
    Opcode.TUPLE: ProgramWalk.tuple,
    Opcode.WHILE: ProgramWalk.loop,
}
