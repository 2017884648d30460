"""From live ranges to slices of allocations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lowtide.analysis.live_range import LiveRanges
from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.buffer import (
    NO_BYTES,
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    CallSite,
    Slice,
)
from lowtide.planning.best_fit import (
    ARENA,
    FREE,
    Packing,
    PackingProblem,
    best_fit,
    item_alignments,
    least_arena_bytes,
    thorough_fit,
)

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class PackedBuffers:
    """Where the buffers of a program lie: in arguments that outputs overwrite, or in the arena.

    `regions` are the buffers of these arguments. Outputs take `kept_bytes` of the arena;
    `temp_bytes` is the rest. No offsets make the arena smaller than `least_arena_bytes`.
    """

    packing: Packing
    regions: tuple[int, ...]
    kept_bytes: int
    temp_bytes: int
    least_arena_bytes: int

    @property
    def arena_bytes(self) -> int:
        """What a call needs beyond its arguments."""
        return self.kept_bytes + self.temp_bytes


def pack_buffers(ranges: LiveRanges, *, thorough: bool = True) -> PackedBuffers:
    """Return offsets for the buffers of a program.

    Temporaries lie in the arena, also where outputs are not written yet, or in the storage of a
    donated argument after its last use. Outputs lie at the front of the arena, or where that makes
    it larger, anywhere. Without `thorough`, fewer packings are tried.
    """
    argument = np.array(ranges.colocation.argument, np.int64)
    outputs = np.flatnonzero(np.array(ranges.colocation.output, np.int64) >= 0)
    regions = np.flatnonzero(argument >= 0)
    region_of = np.full(len(ranges.nbytes), ARENA, np.int64)
    region_of[regions] = np.arange(len(regions))
    offset = np.full(len(ranges.nbytes), FREE, np.int64)
    offset[regions] = 0
    anywhere = PackingProblem(
        ranges.nbytes,
        ranges.buffer,
        ranges.first,
        ranges.last,
        region_of,
        offset,
        ranges.nbytes[regions],
    )
    least = least_arena_bytes(anywhere)
    packing = best_fit(replace(anywhere, fixed_offset=_at_the_front(ranges, outputs, offset)))
    if packing.arena_bytes > least:
        fit = thorough_fit if thorough else best_fit
        packing = min(packing, fit(anywhere), key=_arena_bytes)
    kept_bytes = int(ranges.nbytes[outputs].sum())
    temp_bytes = max(0, packing.arena_bytes - kept_bytes)
    return PackedBuffers(packing, tuple(regions.tolist()), kept_bytes, temp_bytes, least)


def _arena_bytes(packing: Packing) -> int:
    return packing.arena_bytes


def _at_the_front(ranges: LiveRanges, outputs: Int64Array, offset: Int64Array) -> Int64Array:
    """The fixed offsets with the outputs end to end, those of coarse alignment first.

    Else they stand in the order in which they are written, so that the room for those to come is
    in one piece.
    """
    begin = np.full(len(ranges.nbytes), ranges.flat.length)
    np.minimum.at(begin, ranges.buffer, ranges.first)
    alignment = item_alignments(ranges.nbytes)
    order = outputs[np.lexsort((begin[outputs], -alignment[outputs]))]
    fixed = offset.copy()
    fixed[order] = np.cumsum(ranges.nbytes[order]) - ranges.nbytes[order]
    return fixed


def assign_buffers(ranges: LiveRanges, packed: PackedBuffers) -> BufferAssignment:
    """Return the allocations of a module and the slice of each value in them."""
    return _Assignment(ranges, packed).result()


class _Assignment:
    def __init__(self, ranges: LiveRanges, packed: PackedBuffers) -> None:
        self.ranges = ranges
        self.packed = packed
        self.values = ranges.flat.values
        self.allocations: list[Allocation] = []
        self.of_parameter: dict[int, int] = {}
        self.of_constant: dict[Instruction, int] = {}
        self._arguments()
        self.of_region = [self._region(buffer) for buffer in packed.regions]
        size = packed.arena_bytes
        self.arena = self._allocate(
            AllocationKind.ARENA, size, maybe_live_out=packed.kept_bytes > 0
        )

    def result(self) -> BufferAssignment:
        flat = self.ranges.flat
        slices = [self._slice(value) for value in range(len(self.values.nbytes))]
        sites = []
        for site in flat.sites:
            flow = site.flow
            table = {
                instruction: tuple([slices[site.values[value]] for value in leaves])
                for instruction, leaves in zip(flow.nodes, flow.leaves, strict=True)
            }
            sites.append(CallSite(site.computation, site.caller, site.parent, table))
        return BufferAssignment(
            tuple(self.allocations),
            tuple(sites),
            tuple([slices[value] for value in flat.outputs]),
            self.packed.kept_bytes,
            tuple(self._rows(slices)),
        )

    def _rows(self, slices: Sequence[Slice]) -> Iterator[AssignedValue]:
        """The values that have bytes; read-only ones have a buffer each."""
        values, buffer_of = self.values, self.ranges.colocation.buffer_of
        end = self.ranges.flat.length - 1
        indices: dict[Shape, list[ShapeIndex]] = {}
        unshared = len(self.ranges.nbytes)
        for value, place in enumerate(slices):
            if place is NO_BYTES:
                continue
            maker = values.maker[value]
            if maker.shape not in indices:
                indices[maker.shape] = [index for index, _ in maker.shape.leaves()]
            buffer = buffer_of[value]
            yield AssignedValue(
                value,
                values.site[value],
                maker,
                indices[maker.shape][values.leaf[value]],
                place,
                unshared + value if buffer < 0 else buffer,
                maker.opcode in _PHIS,
                (min(values.first[value], end), min(values.last[value], end)),
            )

    def _allocate(
        self,
        kind: AllocationKind,
        nbytes: int,
        parameter: tuple[int, ShapeIndex] | None = None,
        output: ShapeIndex | None = None,
        constant: Instruction | None = None,
        *,
        maybe_live_out: bool = False,
    ) -> int:
        index = len(self.allocations)
        allocation = Allocation(
            index,
            kind,
            nbytes,
            parameter=parameter,
            output=output,
            constant=constant,
            maybe_live_out=maybe_live_out,
        )
        self.allocations.append(allocation)
        return index

    def _arguments(self) -> None:
        root = self.ranges.flat.sites[0].computation
        outputs = [index for index, _ in root.root.shape.leaves()]
        output_of = {alias.parameter: outputs[alias.output] for alias in self.ranges.aliases}
        leaf = 0
        for number, parameter in enumerate(root.parameters):
            for index, _ in parameter.shape.leaves():
                value = self.ranges.flat.parameters[leaf]
                self.of_parameter[value] = self._allocate(
                    AllocationKind.ARGUMENT,
                    self.values.nbytes[value],
                    (number, index),
                    output_of.get(leaf),
                    maybe_live_out=leaf in output_of,
                )
                leaf += 1

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


_PHIS = frozenset({Opcode.WHILE, Opcode.CONDITIONAL})
