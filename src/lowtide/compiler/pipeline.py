"""The pipeline: from a module to its schedule, its buffers, and the report on its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from lowtide.analysis.call_graph import (
    flattened_sizes,
    flattened_sums,
)
from lowtide.analysis.dataflow import Dataflow, ValueKind, dataflow
from lowtide.analysis.donation import Alias, aliases, possible_donations
from lowtide.analysis.live_range import LiveRanges, live_ranges, needs_no_copies
from lowtide.analysis.scratch import ScratchBytes
from lowtide.buffers.assignment import (
    DEFAULT_SEARCH,
    PackedBuffers,
    assign_buffers,
    pack_buffers,
)
from lowtide.buffers.copy_insertion import CopyInsertion, insert_copies
from lowtide.buffers.copy_removal import remove_copies
from lowtide.compiler import proposals
from lowtide.compiler.called_ladders import Bounds, called_ladders
from lowtide.compiler.kept_solvers import keep_solvers
from lowtide.compiler.stages import check_stage, is_fused, pipeline
from lowtide.ir import LowtideError, Module, Schedule
from lowtide.ir.buffer import BufferAssignment
from lowtide.ir.clone import clone_module
from lowtide.ir.collection import without_collection
from lowtide.options import DEFAULT_MEMORY_PRIORITY, DEFAULT_STAGE
from lowtide.passes import Observer
from lowtide.report.caveats import caveats
from lowtide.report.memory import Ladder, MemoryReport, memory_report
from lowtide.scheduling.module_bound import module_bounds
from lowtide.scheduling.module_scheduler import schedule_candidates, schedule_module
from lowtide.scheduling.module_search import Searches
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort, SearchOptions

DEFAULT_PACKING: Final = "portfolio"
"""The strategy that packs buffers where none is named."""


class _Clock:
    """Wall seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


def schedule(module: Module) -> Schedule:
    """Return an order for all that the module runs; the one that it has, where it is scheduled."""
    return schedule_module(module)


def optimize(
    module: Module,
    stage: str,
    observers: Sequence[Observer] = (),
    memory_priority: float = DEFAULT_MEMORY_PRIORITY,
    deadline: Deadline | None = None,
) -> int:
    """Take a module, which is changed, to a stage; return the number of changes.

    Kernels may take longer by the part `memory_priority` of their time where the peak is lower
    then; what would lower it is sought until the `deadline`. A schedule that it has is dropped
    where passes run; after fusion its instructions are others. Raises LowtideError for an unknown
    stage.
    """
    if pipeline(stage):
        module.schedule = None
    return proposals.optimize(module, stage, observers, memory_priority, deadline)


@dataclass(frozen=True, slots=True)
class Plan:
    """A scheduled copy of a module, where its values lie, and the report on that.

    The copy has the copies of values that the module needs, `copies`, with reasons. `ranges` are
    the live ranges that were packed, `packed` is the packing, and `bounds` are what every order of
    each computation needs.
    """

    module: Module
    copies: CopyInsertion
    assignment: BufferAssignment
    report: MemoryReport
    ranges: LiveRanges
    packed: PackedBuffers
    bounds: Bounds


def plan(
    module: Module,
    stage: str = DEFAULT_STAGE,
    packing: str = DEFAULT_PACKING,
    search: SearchOptions = DEFAULT_SEARCH,
    scratch_bytes: ScratchBytes | None = None,
    memory_priority: float = DEFAULT_MEMORY_PRIORITY,
) -> Plan:
    """Return where every value of the module lies, once it is taken to a stage.

    A scheduled module is taken as it is. `packing` is the strategy that gives out offsets. `search`
    limits that, and its effort and its deadline every other search: once the deadline has passed,
    all that is left to do is what a plan cannot do without. What instructions need while they run
    is in the plan where `scratch_bytes` tells how much that is. Kernels may take longer by the part
    `memory_priority` of their time where the peak is lower then. Raises LowtideError as `explain`
    does, and for a strategy that is not known or does not take what the module has.
    """
    taken = _taken(module, stage, search.begun(), memory_priority)
    with taken.deadline.held():
        laid_out = _lay_out(taken, packing, search, scratch_bytes)
        ordered = laid_out.scheduled
        with taken.clock.stage("assignment"):
            assignment = assign_buffers(laid_out.ranges, laid_out.packed)
        report = _report(laid_out, counts_scratch=scratch_bytes is not None)
    return Plan(
        ordered.module,
        ordered.copies,
        assignment,
        report,
        laid_out.ranges,
        laid_out.packed,
        laid_out.bounds,
    )


def explain(
    module: Module,
    stage: str = DEFAULT_STAGE,
    search: SearchOptions = DEFAULT_SEARCH,
    memory_priority: float = DEFAULT_MEMORY_PRIORITY,
) -> MemoryReport:
    """Return the memory report of a module, which is not changed.

    A scheduled module is taken as it is; another one is taken to a stage and scheduled first. At
    stage "input" nothing is optimized. Copies that execution needs are inserted. Raises
    LowtideError for an unknown stage, and for a program that runs one computation from so many
    places that it cannot be written out.
    """
    taken = _taken(module, stage, search.begun(), memory_priority)
    with taken.deadline.held():
        return _report(_lay_out(taken, DEFAULT_PACKING, search, None))


@dataclass(frozen=True, eq=False, slots=True)
class _Taken:
    """A copy of a module that was taken to a stage, unless it was scheduled."""

    module: Module
    was_scheduled: bool
    was_fused: bool
    deadline: Deadline
    clock: _Clock


@dataclass(frozen=True, eq=False, slots=True)
class _Scheduled:
    """A module that was taken to a stage, with copies of values, and scheduled."""

    taken: _Taken
    copies: CopyInsertion
    flows: Dataflow
    bounds: Bounds
    aliases: tuple[Alias, ...]
    searches: Searches

    @property
    def module(self) -> Module:
        return self.taken.module

    @property
    def clock(self) -> _Clock:
        return self.taken.clock

    @property
    def deadline(self) -> Deadline:
        return self.taken.deadline


@dataclass(frozen=True, eq=False, slots=True)
class _LaidOut:
    """A scheduled module, where its values lie, and what every order needs."""

    scheduled: _Scheduled
    ranges: LiveRanges
    packed: PackedBuffers
    bounds: Bounds
    search: SearchOptions


def scheduled(module: Module, stage: str = DEFAULT_STAGE) -> Module:
    """Return a copy of a module, taken to a stage, with the copies of values that its order needs.

    A scheduled module is taken as it is, but for copies. Raises LowtideError as `explain` does.
    """
    taken = _taken(module, stage, Deadline(), DEFAULT_MEMORY_PRIORITY)
    return _ordered(taken, DEFAULT_SEARCH.effort).module


def _taken(module: Module, stage: str, deadline: Deadline, memory_priority: float) -> _Taken:
    check_stage(stage)
    keep_solvers()
    clock = _Clock()
    was_scheduled = module.is_scheduled
    with without_collection():
        module = clone_module(module)
        if not was_scheduled:
            with clock.stage("passes"):
                optimize(module, stage, (), memory_priority, deadline)
    return _Taken(module, was_scheduled, is_fused(stage), deadline, clock)


def _ordered(taken: _Taken, effort: Effort) -> _Scheduled:
    module, clock, was_scheduled = taken.module, taken.clock, taken.was_scheduled
    searches = Searches(effort, taken.deadline)
    with clock.stage("dataflow"):
        _check_size(module)
        pairs = aliases(module)
    with clock.stage("copies"):
        copies = insert_copies(module)
        flows = dataflow(module.entry)
    module.schedule = _schedule(module, flows, pairs, searches, clock)
    if not was_scheduled:
        with clock.stage("copies"):
            removed = remove_copies(module, flows, [x.copy for x in copies.copies])
            copies = copies.without(removed)
            flows = dataflow(module.entry) if removed else flows
    with clock.stage("bound"):
        bounds = module_bounds(module, searches, flows)
    if not was_scheduled and not taken.deadline.passed:
        _take_lower_orders(module, flows, pairs, bounds, clock)
    return _Scheduled(taken, copies, flows, bounds, pairs, searches)


def _take_lower_orders(
    module: Module, flows: Dataflow, pairs: tuple[Alias, ...], bounds: Bounds, clock: _Clock
) -> None:
    """Give computations the lower orders that bounding found, where they need no other copies."""
    lower = {x: found.lower_orders() for x, found in bounds.items() if found.found.lower}
    if not lower:
        return
    assert module.schedule is not None
    with clock.stage("schedule"):
        best = dict(module.schedule.sequences)
        least = live_ranges(module.entry, best, flows, pairs, owns_results=True).live_bytes
        for computation, sequences in lower.items():
            for sequence in sequences:
                tried = {**best, computation: sequence}
                if not needs_no_copies(module.entry, tried, flows, pairs):
                    continue
                live = live_ranges(module.entry, tried, flows, pairs, owns_results=True).live_bytes
                if live <= least:
                    best, least = tried, live
                    break
        module.schedule = Schedule(best)


def _lay_out(
    taken: _Taken, packing: str, search: SearchOptions, scratch_bytes: ScratchBytes | None
) -> _LaidOut:
    search = replace(search, deadline=taken.deadline)
    with without_collection():
        ordered = _ordered(taken, search.effort)
    clock, bounds = ordered.clock, ordered.bounds
    ranges, packed = _pack(ordered, scratch_bytes)
    with clock.stage("packing"):
        if packing != DEFAULT_PACKING:
            packed = _packed_by(packing, ranges, search)
        else:
            packed = _smaller(packed, ranges, search)
    if scratch_bytes is not None:
        with clock.stage("bound"):
            bounds = module_bounds(ordered.module, ordered.searches, ordered.flows, scratch_bytes)
    return _LaidOut(ordered, ranges, packed, bounds, search)


def _schedule(
    module: Module,
    flows: Dataflow,
    pairs: tuple[Alias, ...],
    searches: Searches,
    clock: _Clock,
) -> Schedule:
    """The order of the smallest arena among those in which about the least is live at once."""
    with clock.stage("schedule"):
        candidates = schedule_candidates(module, flows, searches)
    if len(candidates) == 1 or searches.deadline.passed:
        return candidates[0]
    with clock.stage("liveness"):
        found = [
            live_ranges(module.entry, order.sequences, flows, pairs, owns_results=True)
            for order in candidates
        ]
    near = _near_least(found)
    if len(near) == 1:
        return candidates[near[0]]
    arenas: dict[int, int] = {}
    with clock.stage("packing"):
        for i in near:
            packed = pack_buffers(found[i], deadline=searches.deadline)
            arenas[i] = packed.arena_bytes
            if _is_tight(packed, found[i]):
                break
    return candidates[min(arenas, key=arenas.__getitem__)]


def _near_least(found: Sequence[LiveRanges]) -> list[int]:
    """The positions of those to pack: of different live bytes, the least first."""
    first: dict[int, int] = {}
    for i, ranges in enumerate(found):
        first.setdefault(ranges.live_bytes, i)
    most = min(first) * _NEARLY_LEAST
    return [first[x] for x in sorted(first) if x <= most][:_PACKED_ORDERS]


_NEARLY_LEAST: Final = 1.01
"""How far the live bytes of an order may be above the least, as a factor, for it to be packed."""

_PACKED_ORDERS: Final = 2
"""So many orders are packed, of different live bytes, to see which has the smallest arena."""


def _pack(
    ordered: _Scheduled, scratch_bytes: ScratchBytes | None
) -> tuple[LiveRanges, PackedBuffers]:
    """Live ranges and offsets of the smaller arena: with copies that stay where they are, or not.

    Where they do, less is live at once, but what lies in one buffer is harder to pack.
    """
    module, clock = ordered.module, ordered.clock
    assert module.schedule is not None
    best: tuple[LiveRanges, PackedBuffers] | None = None
    for share_copies in (True, False):
        with clock.stage("liveness"):
            ranges = live_ranges(
                module.entry,
                module.schedule.sequences,
                ordered.flows,
                ordered.aliases,
                owns_results=True,
                share_copies=share_copies,
                scratch_bytes=scratch_bytes,
            )
        with clock.stage("packing"):
            packed = pack_buffers(ranges, deadline=ordered.deadline)
        if best is None or packed.arena_bytes < best[1].arena_bytes:
            best = ranges, packed
        if _is_tight(packed, ranges) or not ranges.flat.shares_copies or ordered.deadline.passed:
            break
    assert best is not None
    return best


def _smaller(packed: PackedBuffers, ranges: LiveRanges, search: SearchOptions) -> PackedBuffers:
    """The best packing that an effort allows to look for: more strategies, then a proof."""
    deadline = search.begun()
    if search.effort is not Effort.FAST and not (_is_tight(packed, ranges) or deadline.passed):
        found = pack_buffers(ranges, thorough=True, deadline=deadline)
        packed = min(packed, found, key=lambda x: x.arena_bytes)
    if search.effort is not Effort.PROOF or deadline.passed:
        return packed
    if packed.arena_bytes > ranges.live_bytes:
        found = _packed_by("exact", ranges, search)
        packed = min(packed, found, key=lambda x: x.arena_bytes)
    return packed


def _is_tight(packed: PackedBuffers, ranges: LiveRanges) -> bool:
    """Whether a better packing could save less than a thousandth: not worth a search."""
    return packed.arena_bytes - ranges.live_bytes <= ranges.live_bytes // 1000


def _packed_by(packing: str, ranges: LiveRanges, search: SearchOptions) -> PackedBuffers:
    try:
        return pack_buffers(ranges, packing=packing, search=search)
    except ValueError as error:
        raise LowtideError(f"packing: {error}") from None


def _report(laid_out: _LaidOut, *, counts_scratch: bool = False) -> MemoryReport:
    ordered, ranges, packed = laid_out.scheduled, laid_out.ranges, laid_out.packed
    module, flows, bounds, clock = ordered.module, ordered.flows, laid_out.bounds, ordered.clock
    bound = bounds[module.entry].beyond_arguments
    with clock.stage("computations"):
        called, left_out = called_ladders(module, flows, bounds, laid_out.search)
    return memory_report(
        module,
        ranges,
        Ladder(bound, ranges.live_bytes, packed.arena_bytes),
        packed.temp_bytes,
        packed.least_arena_bytes,
        _constant_bytes(flows),
        called,
        possible_donations(module, ordered.aliases),
        ordered.copies.copies,
        clock.seconds,
        [
            *ordered.deadline.remarks(),
            *caveats(
                module,
                ranges,
                left_out,
                was_scheduled=ordered.taken.was_scheduled,
                was_fused=ordered.taken.was_fused,
                counts_scratch=counts_scratch,
            ),
        ],
    )


def _check_size(module: Module) -> None:
    """Raise LowtideError for a program that is too long, or has too many bytes."""
    flows = dataflow(module.entry)
    steps = flattened_sizes(list(flows))[module.entry]
    if steps > _MOST_STEPS:
        raise LowtideError(
            f"{module.name} runs {steps:,} instructions with each call written out; at most "
            f"{_MOST_STEPS:,} can be planned: call less often, or loop"
        )
    nbytes = flattened_sums({x: sum(flow.value_bytes) for x, flow in flows.items()})[module.entry]
    if nbytes > _MOST_BYTES:
        raise LowtideError(
            f"the arrays of {module.name} have {nbytes:,} bytes in all; at most {_MOST_BYTES:,} "
            "can be planned"
        )


_MOST_STEPS: Final = 1_000_000
"""Longer programs take gigabytes to write out. Only calls of calls of calls get there."""

_MOST_BYTES: Final = 1 << 60
"""Sums of sizes, each counted a few times over, have to fit 64 bits with a sign."""


def _constant_bytes(flows: Dataflow) -> int:
    return sum(
        [
            nbytes
            for flow in flows.values()
            for nbytes, kind in zip(flow.value_bytes, flow.value_kind, strict=True)
            if kind is ValueKind.CONSTANT
        ]
    )
