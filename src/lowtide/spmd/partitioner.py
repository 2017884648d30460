"""The partitioner: from a module with shardings to the program of one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.ir import (
    Instruction,
    Module,
    Opcode,
    ProgramShape,
    Shape,
    tuple_shape,
)
from lowtide.ir.attributes import Constant, CustomCall, GetTupleElement, Parameter
from lowtide.ir.computation import Computation
from lowtide.ir.module import BufferDonor, InputOutputAlias
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.sharding_forms import sharding_of
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.ir.traversal import post_order
from lowtide.spmd.annotations import CONSTRAINT_TARGETS, ModuleShardings, read_annotations
from lowtide.spmd.cells import Cells, cells_of
from lowtide.spmd.choice import Question, choose
from lowtide.spmd.cleanup import remove_dead
from lowtide.spmd.emitter import Emitter, Target, local_shape
from lowtide.spmd.flattening import flattened
from lowtide.spmd.local_ops import LocalOp, write
from lowtide.spmd.placed import Placed
from lowtide.spmd.propagation import propagate
from lowtide.spmd.rules.table import arrays_of, rule_of
from lowtide.spmd.wire import wire_traffic


@dataclass(frozen=True, slots=True)
class Reason:
    """What became of one instruction: its sharding, the bytes that it moves, and why."""

    instruction: str
    opcode: str
    sharding: str
    nbytes: float
    why: str


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The program of one device, and how the leaves of parameters and result lie on all of them."""

    module: Module
    grid: DeviceGrid
    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    reasons: tuple[Reason, ...]


def partition(module: Module) -> Partitioned:
    """Return the program of one device of a module for several partitions.

    Several ways are written out in full, and the one of the least cost is taken. Raises InputError
    for shardings that contradict each other or the devices, and UnsupportedOpError for what cannot
    be partitioned.
    """
    source = flattened(module)
    shardings = read_annotations(source)
    cells = cells_of(source.entry, shardings)
    for number, wish in zip(cells.numbers[source.entry.root], shardings.results, strict=True):
        cell = cells.cells[number]
        if wish is not None and cell.tiling.is_replicated and all(cell.is_open):
            cells.wish(number, wish, "asked of the result")
    propagate(cells)
    best: Draft | None = None
    for gathers in (True, False):
        asked: dict[int, Tiling] = {}
        for _ in range(_PASSES):
            draft = _draft(module, source, shardings, cells, asked, gathers=gathers)
            if best is None or draft.cost < best.cost:
                best = draft
            following = draft.asked
            if following == asked:
                break
            asked = following
    assert best is not None, "there is a first way"
    remove_dead(best.module)
    _finish(module, best.module)
    grid = shardings.grid
    parameters = [t for p in source.entry.parameters for t in cells.tilings(p)]
    return Partitioned(
        best.module,
        grid,
        tuple([sharding_of(t, grid) for t in parameters]),
        tuple([sharding_of(t, grid) for t in best.results]),
        best.reasons,
    )


_PASSES: Final = 3
"""How often a program is written anew with what the last one asked of its values."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One way to write the program: what it costs, and the tilings that its values were asked for.

    `cost` is in bytes that a device sends, with the time to compute as bytes sent meanwhile.
    """

    module: Module
    results: tuple[Tiling, ...]
    reasons: tuple[Reason, ...]
    cost: float
    asked: dict[int, Tiling]


def _draft(
    module: Module,
    source: Module,
    shardings: ModuleShardings,
    cells: Cells,
    asked: Mapping[int, Tiling],
    *,
    gathers: bool,
) -> Draft:
    made = Module(module.name)
    made.num_partitions = module.num_partitions
    made.stack_frames = module.stack_frames
    target = Target(made, shardings.grid)
    walk = Walk(target, cells, asked, gathers=gathers)
    entry = made.add_computation(source.entry.name)
    made.entry = entry
    emitter = Emitter(target, entry)
    given = _parameters(emitter, source.entry, cells)
    leaves = walk.run(emitter, source.entry, given)
    root = source.entry.root
    wanted = []
    for number, leaf, wish in zip(cells.numbers[root], leaves, shardings.results, strict=True):
        known = cells.cells[number].wanted
        tiling = leaf.tiling.whole() if known is None else known
        wanted.append(tiling if wish is None else wish.tiling)
    entry.root = _result(emitter, root.shape, leaves, wanted)
    cost = wire_traffic(made).wire_bytes + walk.work
    return Draft(made, tuple(wanted), tuple(walk.reasons), cost, walk.requests())


def _finish(module: Module, made: Module) -> None:
    entry = made.entry
    made.computations[entry.name] = made.computations.pop(entry.name)
    made.entry_layout = ProgramShape(tuple([p.shape for p in entry.parameters]), entry.root.shape)
    shapes = [parameter.shape for parameter in entry.parameters]
    result = entry.root.shape
    aliases: list[InputOutputAlias] = []
    donors: list[BufferDonor] = list(module.buffer_donors)
    for alias in module.input_output_aliases:
        given = shapes[alias.parameter].at(alias.parameter_index)
        if given is result.at(alias.output_index):
            aliases.append(alias)
        else:
            donors.append(BufferDonor(alias.parameter, alias.parameter_index))
    made.input_output_aliases = tuple(aliases)
    made.buffer_donors = tuple(donors)


def _parameters(emitter: Emitter, entry: Computation, cells: Cells) -> list[list[Placed]]:
    found = []
    for parameter in entry.parameters:
        tilings = cells.tilings(parameter)
        shape = local_tree(parameter.shape, tilings, emitter.grid)
        attributes = Parameter(parameter.attributes_as(Parameter).number)
        made = emitter.computation.add(
            Opcode.PARAMETER, shape, (), attributes, (), parameter.name
        )
        made.set_metadata(parameter.raw_metadata)
        found.append(placed_leaves(emitter, made, parameter.shape, tilings))
    return found


def local_tree(shape: Shape, tilings: Sequence[Tiling], grid: DeviceGrid) -> Shape:
    """Return the shape of the tiles of a value, which may be a tuple of several."""
    if not shape.is_tuple:
        return local_shape(shape, tilings[0], grid) if shape.is_array else shape
    parts, at = [], 0
    for element in shape.tuple_shapes:
        count = len(arrays_of(element))
        parts.append(local_tree(element, tilings[at : at + count], grid))
        at += count
    return tuple_shape(parts)


def placed_leaves(
    emitter: Emitter, made: Instruction, shape: Shape, tilings: Sequence[Tiling]
) -> list[Placed]:
    """Return the leaves of an instruction that makes tiles of `shape`."""
    if not shape.is_tuple:
        return [Placed.of(emitter, shape, tilings[0], made)]
    found: list[Placed] = []
    for number, element in enumerate(shape.tuple_shapes):
        count = len(arrays_of(element))
        part = emitter.add(Opcode.GET_TUPLE_ELEMENT, (made,), GetTupleElement(number))
        own = tilings[len(found) : len(found) + count]
        found += placed_leaves(emitter, part, element, own)
    return found


def _result(
    emitter: Emitter, shape: Shape, leaves: Sequence[Placed], tilings: Sequence[Tiling]
) -> Instruction:
    """Return the instruction that makes a value of leaves in the given tilings."""
    parts = [leaf.to(tiling) for leaf, tiling in zip(leaves, tilings, strict=True)]
    return tree(emitter, shape, parts)


def tree(emitter: Emitter, shape: Shape, parts: Sequence[Instruction]) -> Instruction:
    """Return the value of a shape whose leaves are `parts`."""
    if not shape.is_tuple:
        return parts[0]
    made, at = [], 0
    for element in shape.tuple_shapes:
        count = len(arrays_of(element))
        made.append(tree(emitter, element, parts[at : at + count]))
        at += count
    return emitter.add(
        Opcode.TUPLE, tuple(made), shape=tuple_shape([part.shape for part in made])
    )


def unchanged(loop: Instruction) -> frozenset[int]:
    """Return the leaves of the state that the body of a loop returns as it got them."""
    body = loop.called_computations[1]
    root = body.root
    if root.opcode is not Opcode.TUPLE or any(s.is_tuple for s in loop.shape.tuple_shapes):
        return frozenset()
    return frozenset(
        [
            place
            for place, x in enumerate(root.operands)
            if x.opcode is Opcode.GET_TUPLE_ELEMENT
            and x.operands[0] is body.parameters[0]
            and x.attributes_as(GetTupleElement).index == place
        ]
    )


@final
class Walk:
    """Goes through computations in order and writes what one device does."""

    def __init__(
        self, target: Target, cells: Cells, asked: Mapping[int, Tiling], *, gathers: bool
    ) -> None:
        self.target = target
        self.cells = cells
        self.reasons: list[Reason] = []
        self.work = 0.0
        self._asked = asked
        self._gathers = gathers
        self._made: dict[int, Placed] = {}
        self._found: dict[int, Tiling] = {}
        self._trips = 1

    def requests(self) -> dict[int, Tiling]:
        """Return the tiling that the costliest reader asked for, of cells of which none is known."""
        found = {}
        for number, placed in self._made.items():
            asked = [tiling for tiling in placed.requests if not tiling.partial]
            if asked and self.cells.cells[number].wanted is None:
                found[number] = asked[0]
        return {**found, **self._found}

    def _carried(self, x: Instruction, start: Sequence[Placed] = ()) -> list[Tiling]:
        """Return the tilings of what loops and branches pass on: as known, or as made last time.

        What a loop does not change stays as it is in `start`, unless values are gathered early.
        """
        kept = unchanged(x) if start and not self._gathers else frozenset()
        found = []
        for place, number in enumerate(self.cells.numbers[x]):
            cell = self.cells.cells[number]
            tiling = cell.wanted or self._asked.get(number, cell.tiling)
            if cell.wanted is None and place in kept:
                tiling = start[place].tiling.whole()
            found.append(tiling)
        return found

    def _observe(self, x: Instruction, leaves: Sequence[Placed]) -> None:
        """Keep the tilings in which a body or branch makes what nothing is known of."""
        for number, leaf in zip(self.cells.numbers[x], leaves, strict=True):
            if self.cells.cells[number].wanted is None:
                self._found[number] = leaf.tiling.whole()

    def _wanted(self, number: int) -> Tiling | None:
        known = self.cells.cells[number].wanted
        if known is None:
            known = self._asked.get(number)
        if known is None and self._gathers:
            known = self.cells.cells[number].tiling
        return known

    def run(
        self, emitter: Emitter, computation: Computation, given: Sequence[Sequence[Placed]]
    ) -> list[Placed]:
        """Write a computation for the leaves of its parameters; return those of its root."""
        values: dict[Instruction, list[Placed]] = {}
        for parameter, leaves in zip(computation.parameters, given, strict=True):
            values[parameter] = list(leaves)
        for x in post_order(computation):
            if x.opcode is Opcode.PARAMETER:
                continue
            emitter.origin = x
            handler = _STRUCTURE.get(x.opcode, Walk.operation)
            values[x] = handler(self, emitter, x, [values[y] for y in x.operands])
            emitter.origin = None
        return values[computation.root]

    # -- structure -----------------------------------------------------------------------------

    def tuple(
        self, emitter: Emitter, x: Instruction, operands: Sequence[list[Placed]]
    ) -> list[Placed]:
        """Return the leaves of all operands."""
        return [leaf for leaves in operands for leaf in leaves]

    def element(
        self, emitter: Emitter, x: Instruction, operands: Sequence[list[Placed]]
    ) -> list[Placed]:
        """Return the leaves of one element of a tuple."""
        index = x.attributes_as(GetTupleElement).index
        before = x.operands[0].shape.tuple_shapes[:index]
        first = sum([len(arrays_of(shape)) for shape in before])
        return operands[0][first : first + len(arrays_of(x.shape))]

    def constant(
        self, emitter: Emitter, x: Instruction, operands: Sequence[list[Placed]]
    ) -> list[Placed]:
        """Return a constant, which all devices have."""
        literal = x.attributes_as(Constant).literal
        made = emitter.like(x, (), x.shape.with_default_layout())
        assert literal is not None
        tilings = [replicated(shape.rank) for shape in arrays_of(x.shape)]
        return placed_leaves(emitter, made, x.shape, tilings)

    def custom_call(
        self, emitter: Emitter, x: Instruction, operands: Sequence[list[Placed]]
    ) -> list[Placed]:
        """Return the operand of a constraint, in the tiling asked for where that is inside."""
        if x.attributes_as(CustomCall).target not in CONSTRAINT_TARGETS:
            return self.operation(emitter, x, operands)
        return operands[0]

    def loop(
        self, emitter: Emitter, x: Instruction, operands: Sequence[list[Placed]]
    ) -> list[Placed]:
        """Return the state after a loop, which has one tiling per leaf all the time."""
        tilings = self._carried(x, operands[0])
        start = _result(emitter, x.shape, operands[0], tilings)
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
        made.root = _result(emitter, computation.root.shape, leaves, wanted)
        return made

    def conditional(
        self, emitter: Emitter, x: Instruction, operands: Sequence[list[Placed]]
    ) -> list[Placed]:
        """Return what the branches agree on; the choice is the same on all devices."""
        chosen = operands[0][0]
        results = self._carried(x)
        sources: list[Instruction] = [chosen.to(replicated(0))]
        branches = []
        for branch, leaves, operand in zip(
            x.called_computations, operands[1:], x.operands[1:], strict=True
        ):
            tilings = [leaf.tiling.whole() for leaf in leaves]
            sources.append(_result(emitter, operand.shape, leaves, tilings))
            branches.append(self._callee(x, branch, operand.shape, tilings, results))
        shape = local_tree(x.shape, results, emitter.grid)
        made = emitter.add(
            Opcode.CONDITIONAL, tuple(sources), x.attributes, tuple(branches), shape
        )
        return placed_leaves(emitter, made, x.shape, results)

    # -- operations ----------------------------------------------------------------------------

    def operation(
        self, emitter: Emitter, x: Instruction, operands: Sequence[list[Placed]]
    ) -> list[Placed]:
        """Return what an operation makes, split as costs the least."""
        leaves = [leaf for own in operands for leaf in own]
        rule = rule_of(x)
        numbers = self.cells.numbers[x]
        wanted = [self._wanted(number) for number in numbers]
        question = Question(emitter.grid, x, rule, leaves, wanted)
        split = choose(question)
        tiles = [leaf.to(tiling) for leaf, tiling in zip(leaves, split.operands, strict=True)]
        at, given = 0, []
        for operand, own in zip(x.operands, operands, strict=True):
            given.append(tree(emitter, operand.shape, tiles[at : at + len(own)]))
            at += len(own)
        shape = local_tree(x.shape, split.results, emitter.grid)
        made = write(emitter, LocalOp(x, rule, split, given, shape))
        self._note(x, split.results, split.nbytes, rule.why)
        self.work += self._trips * (split.cost - split.nbytes)
        found = placed_leaves(emitter, made, x.shape, split.results)
        self._made.update(zip(numbers, found, strict=True))
        return found

    def _note(
        self, x: Instruction, tilings: Sequence[Tiling], nbytes: float, why: str
    ) -> None:
        cells = self.cells.of(x)
        text = ", ".join([str(sharding_of(t.whole(), self.target.grid)) for t in tilings])
        reason = cells[0].why if cells else ""
        if nbytes and why:
            reason = f"{reason}; {why} is not split"
        self.reasons.append(Reason(x.name, x.opcode.value, text, nbytes, reason))


_Handler = Callable[[Walk, Emitter, Instruction, Sequence[list[Placed]]], list[Placed]]

_STRUCTURE: Final[dict[Opcode, _Handler]] = {
    Opcode.CONDITIONAL: Walk.conditional,
    Opcode.CONSTANT: Walk.constant,
    Opcode.CUSTOM_CALL: Walk.custom_call,
    Opcode.GET_TUPLE_ELEMENT: Walk.element,
    Opcode.OPTIMIZATION_BARRIER: Walk.tuple,
    Opcode.TUPLE: Walk.tuple,
    Opcode.WHILE: Walk.loop,
}
