"""From live ranges to places: what a packing problem has of a program, and what solves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.live_range import LiveRanges
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
