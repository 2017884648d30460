"""The partitioner: from a module with shardings to the program of one device."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import Module, Opcode, ProgramShape, Shape
from lowtide.ir.errors import InputError
from lowtide.ir.module import BufferDonor, InputOutputAlias
from lowtide.ir.partitioning import check_device_count
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.sharding_forms import sharding_of
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ir.traversal import computation_post_order
from lowtide.ops.effects import has_side_effect
from lowtide.records import dataclass
from lowtide.spmd.annotations import TilingWish, read_annotations
from lowtide.spmd.combining import combine_collectives
from lowtide.spmd.drafts import Task, cheapest
from lowtide.spmd.flattening import flattened
from lowtide.spmd.memo import OperationMemo, SplitMemo
from lowtide.spmd.reasons import SplitReason
from lowtide.spmd.writing import written


@dataclass(frozen=True, slots=True)
class Inspection:
    """The sharding of a value that a call of the module asks about, for whom `config` says."""

    config: str
    sharding: Sharding


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The program of one device, and how the leaves of parameters and result lie on all of them.

    `reasons` tell of each operation how it is split, what it sends, and why. `combined` collectives
    less are started, since others carry what they would. `inspections` answer calls that ask.
    """

    module: Module
    grid: DeviceGrid
    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    reasons: tuple[SplitReason, ...]
    combined: int = 0
    inspections: tuple[Inspection, ...] = ()


def partition(module: Module, splits: SplitMemo | None = None) -> Partitioned:
    """Return the program of one device of a module for several partitions.

    Several ways are decided on in full, and the one of the least cost is written. `splits` are
    those of other modules like this one. Raises InputError for shardings that contradict each other
    or the devices, and UnsupportedOpError for what cannot be partitioned.
    """
    if module.replica_count > 1 and module.num_partitions > 1:
        raise InputError(
            f"{module.name} has {module.replica_count} replicas of {module.num_partitions} "
            "partitions: state one of the two, for all devices"
        )
    check_device_count(module)
    source = flattened(module)
    shardings = read_annotations(source)
    grid = shardings.grid
    task = Task(source, shardings, OperationMemo(splits))
    best = cheapest(task)
    made = written(task, best)
    remove_dead(made)
    combined = combine_collectives(made)
    _finish(module, made)
    return Partitioned(
        made,
        grid,
        _shardings([w for own in shardings.parameters for w in own], best.parameters, grid),
        _shardings(shardings.results, best.results, grid),
        best.reasons(),
        combined,
        tuple([Inspection(x.config, sharding_of(x.tiling, grid)) for x in best.inspections]),
    )


def _shardings(
    wishes: Sequence[TilingWish | None], tilings: Sequence[Tiling], grid: DeviceGrid
) -> tuple[Sharding, ...]:
    return tuple(
        [
            sharding_of(tiling, grid) if wish is None else wish.sharding(tiling, grid)
            for wish, tiling in zip(wishes, tilings, strict=True)
        ]
    )


def _finish(module: Module, made: Module) -> None:
    entry = made.entry
    made.computations[entry.name] = made.computations.pop(entry.name)
    given = module.entry_layout or module.entry.program_shape
    made.entry_layout = ProgramShape(
        tuple([_laid(p.shape, g) for p, g in zip(entry.parameters, given.parameters, strict=True)]),
        _laid(entry.root.shape, given.result),
        given.parameter_names,
    )
    shapes, result = made.entry_layout.parameters, made.entry_layout.result
    aliases: list[InputOutputAlias] = []
    donors: list[BufferDonor] = list(module.buffer_donors)
    for alias in module.input_output_aliases:
        donated = shapes[alias.parameter].at(alias.parameter_index)
        if donated is result.at(alias.output_index):
            aliases.append(alias)
        else:
            donors.append(BufferDonor(alias.parameter, alias.parameter_index))
    made.input_output_aliases = tuple(aliases)
    made.buffer_donors = tuple(donors)


def _laid(tiles: Shape, whole: Shape) -> Shape:
    """Return the shape of tiles that lie in memory as the whole arrays do."""
    leaves = iter([leaf for _, leaf in whole.leaves()])
    return tiles.with_leaves(lambda tile: tile.with_layout(next(leaves).layout))


_CROSSING = frozenset(
    {
        *(Opcode.ALL_GATHER, Opcode.ALL_REDUCE, Opcode.ALL_TO_ALL, Opcode.REDUCE_SCATTER),
        Opcode.COLLECTIVE_PERMUTE,
    }
)
"""Collectives that all devices leave out alike where no device reads them."""


def remove_dead(module: Module) -> None:
    """Remove instructions without users or effects, and computations that nothing calls."""
    for computation in module.computations.values():
        pending = list(computation.instructions.values())
        while pending:
            x = pending.pop()
            if x.users or x.is_root or x.opcode is Opcode.PARAMETER:
                continue
            if x.name not in computation.instructions:
                continue
            if has_side_effect(x) and x.opcode not in _CROSSING:
                continue
            operands = list(x.operands)
            computation.remove(x)
            pending.extend(operands)
    called = set(computation_post_order(module))
    for computation in list(module.computations.values()):
        if computation not in called:
            module.remove_computation(computation)
