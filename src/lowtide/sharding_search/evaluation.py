"""Plans of divisions: the program of one device, its memory, and its simulated step."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from lowtide import compiler
from lowtide.compiler import PlanOptions
from lowtide.compiler.options import DEFAULT_PLAN
from lowtide.cost.devices import DeviceRecord
from lowtide.ir import Instruction, UnsupportedOpError
from lowtide.ir.garbage_collection import without_collection
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.sharding_forms import tiling_of
from lowtide.overlap.hiding import fixed_bytes, hide_communication
from lowtide.records import dataclass
from lowtide.report.shardings import DimensionNames, ShardingChoice
from lowtide.sharding_search.division import Division, NamedAxes
from lowtide.sharding_search.program import ShardableProgram
from lowtide.spmd.memo import SplitMemo
from lowtide.spmd.partitioner import Partitioned, partition
from lowtide.spmd.wire import wire_traffic


@dataclass(frozen=True, slots=True)
class PlannedDivision:
    """A division with what one device of it takes, as `lowtide partition` says of its module."""

    division: Division
    peak_bytes: int
    wire_bytes: int
    seconds: float
    results: tuple[DimensionNames, ...]


@final
class DivisionPlanner:
    """Plans divisions of one program; with `keeps`, each is partitioned once for several caps.

    Peaks have the scratch of kernels where the options tell it. `uncounted` are the opcodes of what
    has no kernel, whose scratch nobody knows.
    """

    def __init__(
        self,
        program: ShardableProgram,
        device: DeviceRecord,
        options: PlanOptions = DEFAULT_PLAN,
        *,
        keeps: bool = False,
        splits: SplitMemo | None = None,
    ) -> None:
        self.program = program
        self.device = device
        self.uncounted: set[str] = set()
        self._scratch_bytes = options.scratch_bytes
        if options.scratch_bytes is not None:
            options = replace(options, scratch_bytes=self._known_scratch)
        self._options = options
        self._keeps = keeps
        self._splits = splits or SplitMemo()
        self._kept: dict[Division, tuple[Partitioned, compiler.ModulePlan]] = {}

    def plan(self, division: Division, memory: int | None) -> PlannedDivision:
        """Return a division with its peak, its traffic and its step within a cap on memory."""
        found = self._kept.get(division)
        if found is None:
            with without_collection():
                parts = partition(self.program.annotated(division), self._splits)
            found = parts, compiler.plan(parts.module, self._options)
            if self._keeps:
                self._kept[division] = found
        parts, plan = found
        hidden = hide_communication(plan, memory, self.device, self._options)
        # What runs without overlap is the plan itself, which may take more than one in halves.
        peak = max(hidden.needed_bytes, plan.report.ladder.arena_bytes + fixed_bytes(plan))
        return _planned(self.program, division, parts, peak, hidden.step.step.seconds)

    def _known_scratch(self, x: Instruction) -> int:
        """The bytes that an instruction needs while it runs, 0 where it has no kernel."""
        assert self._scratch_bytes is not None
        try:
            return self._scratch_bytes(x)
        except UnsupportedOpError:
            self.uncounted.add(x.opcode.value)
            return 0


def _planned(
    program: ShardableProgram,
    division: Division,
    parts: Partitioned,
    peak_bytes: int,
    seconds: float,
) -> PlannedDivision:
    named = division.named(program.mesh)
    shapes = [shape for _, shape in program.module.entry.root.shape.leaves()]
    results = [
        _names(program, named, sharding, shape.rank if shape.is_array else 0)
        for sharding, shape in zip(parts.results, shapes, strict=True)
    ]
    return PlannedDivision(
        division, peak_bytes, wire_traffic(parts.module).wire_bytes, seconds, tuple(results)
    )


def choice_of(program: ShardableProgram, planned: PlannedDivision) -> ShardingChoice:
    """Return a planned division in the names of its mesh and of the arguments."""
    named = planned.division.named(program.mesh)
    pairs = zip(program.leaves, planned.division.leaves, strict=True)
    return ShardingChoice(
        dict(zip(named.names, named.sizes, strict=True)),
        {leaf.name: named.specs(axes) for leaf, axes in pairs},
        planned.results,
        planned.peak_bytes,
        planned.wire_bytes,
        planned.seconds,
        program.has_paths,
    )


def _names(
    program: ShardableProgram, named: NamedAxes, sharding: Sharding, rank: int
) -> DimensionNames:
    """The names of the axes that split each dimension of a result."""
    mesh = program.mesh
    tiling = tiling_of(sharding, mesh.grid, rank)
    if tiling is None:
        return ((),) * rank
    owner = {
        at: name
        for name, members in zip(named.names, named.members, strict=True)
        for at in mesh.grid_axes(members)
    }
    return tuple([tuple(dict.fromkeys([owner[at] for at in axes])) for axes in tiling.axes])
