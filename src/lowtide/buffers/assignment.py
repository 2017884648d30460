"""From live ranges to slices of allocations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.live_range import LiveRanges
from lowtide.ir import Instruction, Opcode
from lowtide.ir.buffer import (
    NO_BYTES,
    Allocation,
    AllocationKind,
    BufferAssignment,
    BufferCopy,
    CallSite,
    Slice,
)
from lowtide.planning.best_fit import (
    ARENA,
    FREE,
    Packing,
    PackingProblem,
    best_fit,
    least_arena_bytes,
)

Int64Array = npt.NDArray[np.int64]

ALIGNMENT: Final = 64
"""Offsets are multiples of this many bytes: a cache line, and the widest vector."""


@dataclass(frozen=True, eq=False, slots=True)
class PackedBuffers:
    """Where the buffers of a program lie: in arguments that outputs overwrite, or in the arena.

    `regions` are the buffers of these arguments. Outputs take the first `kept_bytes` of the arena,
    each rounded up; `temp_bytes` is what lies behind them, not rounded. No offsets make the arena
    smaller than `least_arena_bytes`.
    """

    packing: Packing
    regions: tuple[int, ...]
    kept_bytes: int
    temp_bytes: int
    least_arena_bytes: int

    @property
    def arena_bytes(self) -> int:
        """What a call needs beyond its arguments, rounded up to the alignment."""
        return self.kept_bytes + _round_up(self.temp_bytes)


def pack_buffers(ranges: LiveRanges) -> PackedBuffers:
    """Return offsets for the buffers of a program.

    Temporaries lie in the arena, also where outputs are not written yet, or in the storage of a
    donated argument after its last use. Outputs stand in the order in which they are written, so
    that the room for those to come is in one piece.
    """
    output = np.array(ranges.colocation.output, np.int64)
    argument = np.array(ranges.colocation.argument, np.int64)
    regions = np.flatnonzero(argument >= 0)
    region_of = np.full(len(ranges.nbytes), ARENA, np.int64)
    region_of[regions] = np.arange(len(regions))
    offset = np.full(len(ranges.nbytes), FREE, np.int64)
    offset[regions] = 0
    kept_bytes = 0
    for buffer in _by_first_write(ranges, np.flatnonzero(output >= 0)):
        offset[buffer] = kept_bytes
        kept_bytes += _round_up(int(ranges.nbytes[buffer]))
    problem = PackingProblem(
        ranges.nbytes,
        ranges.buffer,
        ranges.first,
        ranges.last,
        region_of,
        offset,
        ranges.nbytes[regions],
    )
    packing = best_fit(problem, ALIGNMENT)
    temp_bytes = max(0, packing.arena_bytes - kept_bytes)
    least = least_arena_bytes(problem, ALIGNMENT)
    return PackedBuffers(packing, tuple(regions.tolist()), kept_bytes, temp_bytes, least)


def _by_first_write(ranges: LiveRanges, buffers: Int64Array) -> list[int]:
    begin = np.full(len(ranges.nbytes), ranges.flat.length)
    np.minimum.at(begin, ranges.buffer, ranges.first)
    order = buffers[np.argsort(begin[buffers], kind="stable")]
    return [int(buffer) for buffer in order]


def _round_up(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def assign_buffers(ranges: LiveRanges, packed: PackedBuffers) -> BufferAssignment:
    """Return the allocations of a module and the slice of each value in them."""
    return _Assignment(ranges, packed).result()


class _Assignment:
    def __init__(self, ranges: LiveRanges, packed: PackedBuffers) -> None:
        self.ranges = ranges
        self.packed = packed
        self.values = ranges.colocation.values
        self.allocations: list[Allocation] = []
        self.of_parameter: dict[int, int] = {}
        self.of_constant: dict[Instruction, int] = {}
        self._arguments()
        self.of_region = [self._region(buffer) for buffer in packed.regions]
        size = packed.kept_bytes + packed.temp_bytes
        self.arena = self._allocate(AllocationKind.ARENA, size)

    def result(self) -> BufferAssignment:
        flat, colocation = self.ranges.flat, self.ranges.colocation
        slices = [self._slice(value) for value in range(len(self.values.nbytes))]
        sites = []
        for site in flat.sites:
            flow = site.flow
            table = {
                instruction: tuple([slices[site.values[value]] for value in leaves])
                for instruction, leaves in zip(flow.nodes, flow.leaves, strict=True)
            }
            sites.append(CallSite(site.computation, site.caller, site.parent, table))
        copies = [
            BufferCopy(copy.moment, copy.site, slices[copy.source], slices[copy.target])
            for copy in colocation.copies
        ]
        return BufferAssignment(
            tuple(self.allocations),
            tuple(sites),
            tuple(zip(flat.site_of, flat.instructions, strict=True)),
            tuple(copies),
            tuple([slices[value] for value in colocation.results]),
            self.packed.kept_bytes,
        )

    def _allocate(
        self,
        kind: AllocationKind,
        nbytes: int,
        parameter: int = -1,
        output: int = -1,
        constant: Instruction | None = None,
    ) -> int:
        index = len(self.allocations)
        self.allocations.append(Allocation(index, kind, nbytes, parameter, output, constant))
        return index

    def _arguments(self) -> None:
        output_of = {alias.parameter: alias.output for alias in self.ranges.aliases}
        for leaf, value in enumerate(self.ranges.flat.parameters):
            nbytes = self.values.nbytes[value]
            self.of_parameter[value] = self._allocate(
                AllocationKind.ARGUMENT, nbytes, leaf, output_of.get(leaf, -1)
            )

    def _region(self, buffer: int) -> int:
        """The allocation of the argument whose storage a buffer is."""
        leaf = self.ranges.colocation.argument[buffer]
        return self.of_parameter[self.ranges.flat.parameters[leaf]]

    def _slice(self, value: int) -> Slice:
        nbytes = self.values.nbytes[value]
        buffer = self.ranges.colocation.buffer_of[value]
        if buffer >= 0:
            region = int(self.packed.packing.region[buffer])
            allocation = self.arena if region == ARENA else self.of_region[region]
            return Slice(allocation, int(self.packed.packing.offset[buffer]), nbytes)
        if not nbytes:
            return NO_BYTES
        if value in self.of_parameter:
            return Slice(self.of_parameter[value], 0, nbytes)
        return Slice(self._constant(self.values.maker[value], nbytes), 0, nbytes)

    def _constant(self, instruction: Instruction, nbytes: int) -> int:
        if instruction.opcode is not Opcode.CONSTANT:
            raise AssertionError(f"{instruction} is read-only but no constant")
        if instruction not in self.of_constant:
            index = self._allocate(AllocationKind.CONSTANT, nbytes, constant=instruction)
            self.of_constant[instruction] = index
        return self.of_constant[instruction]
