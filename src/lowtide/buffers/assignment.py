"""From packed buffers to slices of allocations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowtide.analysis.live_range import LiveRanges
from lowtide.buffers.packing import PackedBuffers
from lowtide.ir import Instruction, Opcode, Shape, ShapeIndex
from lowtide.ir.buffer import (
    NO_BYTES,
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    BufferSlice,
    CallSite,
)
from lowtide.ir.shape import HOST_MEMORY
from lowtide.planning.problem import ARENA
from lowtide.records import dataclass


def assign_buffers(
    ranges: LiveRanges, packed: PackedBuffers, host: HostPlaces | None = None
) -> BufferAssignment:
    """Return the allocations of a module and the slice of each value in them.

    `host` are the places of what lies in the host's memory, None where nothing does.
    """
    return _Assignment(ranges, packed, host).result()


@dataclass(frozen=True, eq=False, slots=True)
class HostPlaces:
    """The live ranges of arrays in the host's memory, and where they lie there."""

    ranges: LiveRanges
    packed: PackedBuffers


class _Assignment:
    def __init__(self, ranges: LiveRanges, packed: PackedBuffers, host: HostPlaces | None) -> None:
        self.ranges = ranges
        self.packed = packed
        self.host = host
        self.values = ranges.flat.values
        self.nbytes = list(self.values.nbytes)
        if host is not None:
            hosted = host.ranges.flat.values.nbytes
            self.nbytes = [x + y for x, y in zip(self.nbytes, hosted, strict=True)]
        self.allocations: list[Allocation] = []
        self.of_parameter: dict[int, int] = {}
        self.of_constant: dict[Instruction, int] = {}
        self._arguments()
        self.arena = {
            colour: self._arena(colour, size, packed) for colour, size in packed.arena_sizes.items()
        }
        if host is not None and HOST_MEMORY in host.packed.arena_sizes:
            size = host.packed.arena_sizes[HOST_MEMORY]
            self.arena[HOST_MEMORY] = self._arena(HOST_MEMORY, size, host.packed)

    def _arena(self, colour: int, size: int, packed: PackedBuffers) -> int:
        """Add the arena of a memory space, in which outputs lie where it has any."""
        kept = packed.kept_bytes > 0
        return self._allocate(AllocationKind.ARENA, size, colour=colour, maybe_live_out=kept)

    def result(self) -> BufferAssignment:
        flat = self.ranges.flat
        slices = [self._slice(value) for value in range(len(self.values.nbytes))]
        scratch = self._scratch()
        sites = []
        for number, site in enumerate(flat.sites):
            flow = site.flow
            table = {
                instruction: tuple([slices[site.values[value]] for value in leaves])
                for instruction, leaves in zip(flow.nodes, flow.leaves, strict=True)
            }
            sites.append(
                CallSite(site.computation, site.caller, site.parent, table, scratch=scratch[number])
            )
        return BufferAssignment(
            tuple(self.allocations),
            tuple(sites),
            tuple([slices[value] for value in flat.outputs]),
            self.packed.kept_bytes,
            tuple(self._rows(slices)),
            peak_values=self._at_the_peak(slices),
        )

    def _at_the_peak(self, slices: Sequence[BufferSlice]) -> dict[int, tuple[int, ...]]:
        """Per arena the values that lie in it when most is live in the program."""
        found: dict[int, list[int]] = {index: [] for index in self.arena.values()}
        for value in self.ranges.values_at(self.ranges.peak_position):
            if slices[value].allocation in found:
                found[slices[value].allocation].append(value)
        return {index: tuple(values) for index, values in found.items()}

    def _rows(self, slices: Sequence[BufferSlice]) -> Iterator[AssignedValue]:
        """The values that have bytes; read-only ones have a buffer each."""
        values, buffer_of = self.values, self._buffers()
        end = self.ranges.flat.length - 1
        indices: dict[Shape, list[ShapeIndex]] = {}
        unshared = max(buffer_of, default=-1) + 1
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

    def _buffers(self) -> Sequence[int]:
        """The buffer of each value, -1 for none; those with the host are numbered behind others."""
        own = self.ranges.colocation.buffer_of
        if self.host is None:
            return own
        first, hosted = len(self.ranges.nbytes), self.host.ranges.colocation.buffer_of
        return [x if x >= 0 or y < 0 else first + y for x, y in zip(own, hosted, strict=True)]

    def _allocate(
        self,
        kind: AllocationKind,
        nbytes: int,
        parameter: tuple[int, ShapeIndex] | None = None,
        output: ShapeIndex | None = None,
        constant: Instruction | None = None,
        *,
        colour: int = 0,
        maybe_live_out: bool = False,
    ) -> int:
        index = len(self.allocations)
        allocation = Allocation(
            index,
            kind,
            nbytes,
            colour,
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
                    self.nbytes[value],
                    (number, index),
                    output_of.get(leaf),
                    colour=self.values.space[value],
                    maybe_live_out=leaf in output_of,
                )
                leaf += 1

    def _region(self, ranges: LiveRanges, buffer: int) -> int:
        """The allocation of the argument whose storage a buffer is."""
        leaf = ranges.colocation.argument[buffer]
        return self.of_parameter[ranges.flat.parameters[leaf]]

    def _scratch(self) -> list[dict[Instruction, BufferSlice]]:
        """Per call site what its instructions need while they run."""
        flat = self.ranges.flat
        found: list[dict[Instruction, BufferSlice]] = [{} for _ in flat.sites]
        for position, buffer in self.ranges.scratch.items():
            nbytes = int(self.ranges.nbytes[buffer])
            place = self._buffer_slice(self.ranges, self.packed, buffer, nbytes)
            found[flat.site_of[position]][flat.instructions[position]] = place
        return found

    def _buffer_slice(
        self, ranges: LiveRanges, packed: PackedBuffers, buffer: int, nbytes: int
    ) -> BufferSlice:
        region, colour = int(packed.region[buffer]), int(packed.colour[buffer])
        if region == ARENA:
            allocation = self.arena[colour]
        else:
            allocation = self._region(ranges, packed.regions[region])
        return BufferSlice(allocation, int(packed.offset[buffer]), nbytes)

    def _slice(self, value: int) -> BufferSlice:
        nbytes = self.nbytes[value]
        parts = [(self.ranges, self.packed)]
        if self.host is not None:
            parts.append((self.host.ranges, self.host.packed))
        for ranges, packed in parts:
            buffer = ranges.colocation.buffer_of[value]
            if buffer >= 0:
                return self._buffer_slice(ranges, packed, buffer, nbytes)
        if not nbytes:
            return NO_BYTES
        if value in self.of_parameter:
            return BufferSlice(self.of_parameter[value], 0, nbytes)
        return BufferSlice(self._constant(value, nbytes), 0, nbytes)

    def _constant(self, value: int, nbytes: int) -> int:
        instruction = self.values.maker[value]
        if instruction.opcode is not Opcode.CONSTANT:
            raise AssertionError(f"{instruction} is read-only but no constant")
        if instruction not in self.of_constant:
            colour = self.values.space[value]
            index = self._allocate(
                AllocationKind.CONSTANT, nbytes, constant=instruction, colour=colour
            )
            self.of_constant[instruction] = index
        return self.of_constant[instruction]


_PHIS = frozenset({Opcode.WHILE, Opcode.CONDITIONAL})
