"""Writing what was decided: the program of one device, in the order of the whole one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, final

from lowtide.ir import Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import Collective, CollectivePermute, Parameter
from lowtide.ir.computation import Computation
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.ir.traversal import post_order
from lowtide.ops.factors.record import arrays_of
from lowtide.spmd.annotations import ModuleShardings
from lowtide.spmd.cells import ArrayCells
from lowtide.spmd.choice import LocalOp, OperationSplit
from lowtide.spmd.drafts import Draft, Task
from lowtide.spmd.effects import call_on, calling_device, has_tiles
from lowtide.spmd.emitter import DeviceProgram, Emitter
from lowtide.spmd.leaves import (
    element_of,
    first_alone,
    in_order,
    local_tree,
    off_order,
    result_of,
    tree,
    written_leaves,
)
from lowtide.spmd.local_ops import write
from lowtide.spmd.manual import border_wishes, is_entrance
from lowtide.spmd.roles import Role
from lowtide.spmd.written import WrittenArray

Leaves: TypeAlias = list[WrittenArray]
"""Those of one value, in their order."""


def written(task: Task, draft: Draft) -> Module:
    """Return the program of one device, as a draft has decided."""
    source, shardings = task.source, task.shardings
    made = Module(source.name)
    made.num_partitions = source.num_partitions
    made.replica_count = source.replica_count
    made.stack_frames = source.stack_frames
    target = DeviceProgram(made, shardings.grid)
    entry = made.add_computation(source.entry.name)
    made.entry = entry
    emitter = Emitter(target, entry)
    writer = ProgramWriter(target, shardings, draft.cells, draft.splits)
    found = writer.run(emitter, source.entry, _parameters(emitter, task, draft.parameters))
    parts = [
        in_order(emitter, leaf.to(tiling), wish, tiling)
        for leaf, tiling, wish in zip(found, draft.results, shardings.results, strict=True)
    ]
    entry.root = tree(emitter, source.entry.root.shape, parts)
    return made


def _parameters(emitter: Emitter, task: Task, given: Sequence[Tiling]) -> list[Leaves]:
    """Write the parameters, whose leaves come in the given tilings."""
    found, at = [], 0
    for parameter, wishes in zip(
        task.source.entry.parameters, task.shardings.parameters, strict=True
    ):
        tilings = given[at : at + len(wishes)]
        at += len(wishes)
        shape = local_tree(parameter.shape, tilings, emitter.grid)
        attributes = Parameter(parameter.attributes_as(Parameter).number)
        made = emitter.computation.add(Opcode.PARAMETER, shape, (), attributes, (), parameter.name)
        made.set_metadata(parameter.raw_metadata)
        leaves = written_leaves(emitter, made, parameter.shape, tilings)
        found.append(
            [
                WrittenArray.of(emitter, x.shape, t, off_order(emitter, x.forms[t], wish, t))
                for x, t, wish in zip(leaves, tilings, wishes, strict=True)
            ]
        )
    return found


@final
class ProgramWriter:
    """Goes through computations in order and writes what one device does.

    `splits` say of each instruction in which tilings it takes the leaves of its operands, and makes
    those of its results. Nothing is decided here.
    """

    def __init__(
        self,
        target: DeviceProgram,
        shardings: ModuleShardings,
        cells: ArrayCells,
        splits: Mapping[Instruction, OperationSplit],
    ) -> None:
        self.target = target
        self.shardings = shardings
        self.cells = cells
        self.splits = splits

    def run(
        self, emitter: Emitter, computation: Computation, given: Sequence[Sequence[WrittenArray]]
    ) -> Leaves:
        """Write a computation for the leaves of its parameters; return those of its root."""
        values: dict[Instruction, Leaves] = {}
        for parameter, leaves in zip(computation.parameters, given, strict=True):
            values[parameter] = list(leaves)
        for x in post_order(computation):
            role = self.cells.memo.role(x)
            if role is not Role.PARAMETER:
                emitter.origin = x
                values[x] = _WRITERS[role](self, emitter, x, [values[y] for y in x.operands])
                emitter.origin = None
        return values[computation.root]

    def _made(self, emitter: Emitter, x: Instruction, made: Instruction) -> Leaves:
        return written_leaves(emitter, made, x.shape, self.splits[x].results)

    # -- structure -----------------------------------------------------------------------------

    def mark(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return the leaves of all operands."""
        return [leaf for leaves in operands for leaf in leaves]

    def nothing(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return nothing, for what only says or asks something."""
        return []

    def element(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return the leaves of one element of a tuple."""
        return element_of(x, operands[0])

    def constant(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return a constant, which all devices have."""
        return self._made(emitter, x, emitter.like(x, (), x.shape.with_default_layout()))

    def effect(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return the results of a call with effects, made by each device or by one of them."""
        tilings, given = iter(self.splits[x].operands), []
        for operand, own in zip(x.operands, operands, strict=True):
            tiles = [leaf.to(next(tilings)) for leaf in own]
            given.append(tree(emitter, operand.shape, tiles))
        device = None if has_tiles(x) else calling_device(x, self.shardings.reader)
        if device is None:
            return self._made(emitter, x, emitter.like(x, given, x.shape))
        return self._made(emitter, x, call_on(emitter, x, given, device))

    def border(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return the leaves on the other side of a border."""
        leaves = [leaf for own in operands for leaf in own]
        split, shapes = self.splits[x], arrays_of(x.shape)
        moved = in_order if is_entrance(x) else off_order
        found = []
        for number, wish in enumerate(border_wishes(x, self.shardings)):
            tile = leaves[number].to(split.operands[number])
            made = moved(emitter, tile, wish, wish.tiling)
            found.append(WrittenArray.of(emitter, shapes[number], split.results[number], made))
        return found

    def collective(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return a collective of a manual region as it is written, on a channel of its own."""
        split = self.splits[x]
        leaves = [leaf for own in operands for leaf in own]
        tiles = [leaf.to(tiling) for leaf, tiling in zip(leaves, split.operands, strict=True)]
        attributes = x.attributes
        if isinstance(attributes, Collective | CollectivePermute):
            attributes = replace(attributes, channel_id=self.target.channel())
        shape = local_tree(x.shape, split.results, emitter.grid)
        return self._made(emitter, x, emitter.like(x, tiles, shape, attributes))

    def loop(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return the state after a loop."""
        tilings = self.splits[x].results
        start = result_of(emitter, x.shape, operands[0], tilings)
        whole = [replicated(s.rank) for s in arrays_of(x.called_computations[0].root.shape)]
        called = [
            self._callee(computation, x.shape, tilings, results)
            for computation, results in zip(x.called_computations, (whole, tilings), strict=True)
        ]
        made = emitter.add(Opcode.WHILE, (start,), x.attributes, called, start.shape)
        return self._made(emitter, x, made)

    def _callee(
        self,
        computation: Computation,
        shape: Shape,
        tilings: Sequence[Tiling],
        results: Sequence[Tiling],
    ) -> Computation:
        """Write a computation of one parameter."""
        made = self.target.module.add_computation(computation.name)
        emitter = Emitter(self.target, made)
        local = local_tree(shape, tilings, emitter.grid)
        source = computation.parameters[0]
        parameter = made.add(Opcode.PARAMETER, local, (), Parameter(0), (), source.name)
        given = written_leaves(emitter, parameter, shape, tilings)
        leaves = self.run(emitter, computation, [given])
        made.root = result_of(emitter, computation.root.shape, leaves, results)
        return made

    def branches(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return what the branches agree on."""
        split = self.splits[x]
        chosen, *given = operands
        sources, called = [chosen[0].to(split.operands[0])], []
        at = 1
        for branch, leaves, operand in zip(
            x.called_computations, given, x.operands[1:], strict=True
        ):
            tilings = split.operands[at : at + len(leaves)]
            at += len(leaves)
            sources.append(result_of(emitter, operand.shape, leaves, tilings))
            called.append(self._callee(branch, operand.shape, tilings, split.results))
        shape = local_tree(x.shape, split.results, emitter.grid)
        made = emitter.add(Opcode.CONDITIONAL, tuple(sources), x.attributes, called, shape)
        return self._made(emitter, x, made)

    # -- operations ----------------------------------------------------------------------------

    def operation(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return what an operation makes on tiles."""
        split = self.splits[x]
        tilings = iter(split.operands)
        tiles = [[leaf.to(next(tilings)) for leaf in own] for own in operands]
        pairs = zip(x.operands, tiles, strict=True)
        given = [tree(emitter, operand.shape, own) for operand, own in pairs]
        shape = local_tree(x.shape, split.results, emitter.grid)
        made = write(emitter, LocalOp(x, self.cells.rule(x), split, given, shape))
        return self._made(emitter, x, made)

    def drawn(self, emitter: Emitter, x: Instruction, operands: Sequence[Leaves]) -> Leaves:
        """Return random numbers where the first device draws them, nothing on the others."""
        (leaf,) = self.operation(emitter, x, operands)
        terms = first_alone(x.shape, emitter.grid)
        made = emitter.masked(leaf.to(self.splits[x].results[0]), terms.partial, terms.reduction)
        return [WrittenArray.of(emitter, x.shape, terms, made)]


_Writer = Callable[[ProgramWriter, Emitter, Instruction, Sequence[Leaves]], Leaves]

_WRITERS: Final[dict[Role, _Writer]] = {
    Role.BORDER: ProgramWriter.border,
    Role.BRANCHES: ProgramWriter.branches,
    Role.COLLECTIVE: ProgramWriter.collective,
    Role.CONSTANT: ProgramWriter.constant,
    Role.DRAWN: ProgramWriter.drawn,
    Role.EFFECT: ProgramWriter.effect,
    Role.ELEMENT: ProgramWriter.element,
    Role.GROUP: ProgramWriter.nothing,
    Role.INSPECTION: ProgramWriter.nothing,
    Role.LOOP: ProgramWriter.loop,
    Role.MARK: ProgramWriter.mark,
    Role.OPERATION: ProgramWriter.operation,
}
