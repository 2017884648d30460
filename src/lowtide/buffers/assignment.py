"""From live ranges to slices of allocations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

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
    BufferSlice,
    CallSite,
)
from lowtide.ir.shape import HOST_MEMORY
from lowtide.planning.assign import place as packed_by
from lowtide.planning.offsets.portfolio import packed_once
from lowtide.planning.plans import Packing
from lowtide.planning.problem import ARENA, FREE, PackingProblem, max_live
from lowtide.records import dataclass
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions, StopReason

Int64Array = npt.NDArray[np.int64]

DEFAULT_SEARCH: Final = SearchOptions()


@dataclass(frozen=True, eq=False, slots=True)
class PackedBuffers:
    """Places of the buffers of a program: in arguments that outputs overwrite, or in an arena.

    Each memory space has an arena, `arena_sizes` bytes large. Per buffer, `region` is the number of
    an argument in `regions`, or `ARENA` for that of its memory space, `colour`. Outputs take
    `kept_bytes` of the arenas. No offsets make them smaller in all than `least_arena_bytes`.
    """

    region: Int64Array
    offset: Int64Array
    colour: Int64Array
    regions: tuple[int, ...]
    arena_sizes: Mapping[int, int]
    kept_bytes: int
    least_arena_bytes: int

    @property
    def arena_bytes(self) -> int:
        """What a call needs beyond its arguments, in all memory spaces."""
        return sum(self.arena_sizes.values())

    @property
    def temp_bytes(self) -> int:
        """What a call needs beyond its arguments and outputs."""
        return self.arena_bytes - self.kept_bytes


def pack_buffers(
    ranges: LiveRanges,
    *,
    thorough: bool = False,
    packing: str | None = None,
    search: SearchOptions = DEFAULT_SEARCH,
    deadline: Deadline | None = None,
) -> PackedBuffers:
    """Return offsets for the buffers of a program.

    Temporaries lie in the arena, also where outputs are not written yet, or in the storage of a
    donated argument after its last use. Outputs lie at the front of the arena, or where that makes
    it larger, anywhere. With `thorough` they lie anywhere, and more packings are tried; from the
    `deadline` on, nothing is tried but what leads to the first one. A `packing`
    names one strategy of `planning`, which is limited by `search`; raises ValueError if there is
    none, or if it does not take what the program has.
    """
    regions = np.flatnonzero(np.array(ranges.colocation.argument, np.int64) >= 0)
    outputs = np.array(ranges.colocation.output, np.int64) >= 0
    colour = _colours(ranges)
    region = np.full(len(ranges.nbytes), ARENA, np.int64)
    offset = np.zeros(len(ranges.nbytes), np.int64)
    sizes: dict[int, int] = {}
    least = 0
    for space, chosen, problem in packing_problems(ranges):
        least += max_live(problem)
        front = _at_the_front(ranges, chosen, outputs[chosen], problem)
        if packing is None:
            packed = _smallest(problem, front, deadline or Deadline(), thorough=thorough)
        else:
            packed = packed_by(problem, packing, search).packing
        if packed.stopped is StopReason.INTERRUPT:
            raise KeyboardInterrupt
        here = regions[colour[regions] == space]
        within = packed.region != ARENA
        region[chosen[within]] = np.searchsorted(regions, here[packed.region[within]])
        offset[chosen] = packed.offset
        kept = int(ranges.nbytes[chosen[outputs[chosen]]].sum())
        sizes[space] = max(packed.arena_bytes, kept)
    return PackedBuffers(
        region,
        offset,
        colour,
        tuple(regions.tolist()),
        sizes or {0: 0},
        int(ranges.nbytes[outputs].sum()),
        least,
    )


def _colours(ranges: LiveRanges) -> Int64Array:
    """The memory space of each buffer."""
    colour = np.zeros(len(ranges.nbytes), np.int64)
    for value, buffer in enumerate(ranges.colocation.buffer_of):
        if buffer >= 0:
            colour[buffer] = ranges.flat.values.space[value]
    return colour


def _problem(ranges: LiveRanges, chosen: Int64Array, regions: Int64Array) -> PackingProblem:
    """The buffers `chosen`, numbered from 0, of which those in `regions` are regions."""
    number = np.full(len(ranges.nbytes), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    here = number[regions[number[regions] >= 0]]
    region_of = np.full(len(chosen), ARENA, np.int64)
    region_of[here] = np.arange(len(here))
    offset = np.full(len(chosen), FREE, np.int64)
    offset[here] = 0
    rows = number[ranges.buffer] >= 0
    return PackingProblem(
        ranges.nbytes[chosen],
        item_alignments(ranges.nbytes[chosen], ranges.alignment),
        number[ranges.buffer[rows]],
        ranges.first[rows],
        ranges.last[rows],
        offset,
        region_of,
        ranges.nbytes[chosen[here]],
    )


def packing_problem(ranges: LiveRanges) -> PackingProblem:
    """Return all buffers of a program as one problem, whatever memory space they are in.

    Regions are the arguments that outputs overwrite, in order of their buffers.
    """
    regions = np.flatnonzero(np.array(ranges.colocation.argument, np.int64) >= 0)
    return _problem(ranges, np.arange(len(ranges.nbytes)), regions)


def packing_problems(ranges: LiveRanges) -> list[tuple[int, Int64Array, PackingProblem]]:
    """Return what `pack_buffers` packs: each memory space, the buffers there, and their problem.

    The problem numbers the buffers from 0; those in donated arguments are fixed in regions.
    """
    regions = np.flatnonzero(np.array(ranges.colocation.argument, np.int64) >= 0)
    colour = _colours(ranges)
    found = []
    for space in sorted(set(colour.tolist())):
        chosen = np.flatnonzero(colour == space)
        found.append((space, chosen, _problem(ranges, chosen, regions)))
    return found


def item_alignments(nbytes: Int64Array, most: int) -> Int64Array:
    """Return what the offset of each buffer is a multiple of.

    It is the largest power of two, at most `most`, that divides its size, so that buffers can
    lie end to end without padding.
    """
    return np.gcd(nbytes, most)


def _smallest(
    problem: PackingProblem, front: Int64Array, deadline: Deadline, *, thorough: bool
) -> Packing:
    if thorough:
        return packed_once(problem, SearchOptions(deadline=deadline))
    quick = SearchOptions(Effort.FAST, deadline)
    packing = packed_once(replace(problem, fixed_offset=front), quick)
    if packing.arena_bytes > max_live(problem) and not deadline.passed:
        packing = min(packing, packed_once(problem, quick), key=_arena_bytes)
    return packing


def _arena_bytes(packing: Packing) -> int:
    return packing.arena_bytes


def _at_the_front(
    ranges: LiveRanges,
    chosen: Int64Array,
    is_output: npt.NDArray[np.bool_],
    problem: PackingProblem,
) -> Int64Array:
    """The fixed offsets with the outputs end to end, those of coarse alignment first.

    Else they stand in the order in which they are written, so that the room for those to come is
    in one piece.
    """
    begin = np.full(len(chosen), ranges.flat.length)
    np.minimum.at(begin, problem.item, problem.first)
    alignment = problem.alignment
    outputs = np.flatnonzero(is_output)
    order = outputs[np.lexsort((begin[outputs], -alignment[outputs]))]
    fixed = problem.fixed_offset.copy()
    fixed[order] = np.cumsum(problem.nbytes[order]) - problem.nbytes[order]
    return fixed


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
