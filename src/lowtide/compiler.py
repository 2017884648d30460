"""The pipeline: from a module to its schedule, its buffers, and the report on its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Final

from lowtide.analysis.call_graph import (
    CallRole,
    call_sites,
    flattened_sizes,
    flattened_sums,
)
from lowtide.analysis.dataflow import Dataflow, ValueKind, dataflow
from lowtide.analysis.donation import Alias, aliases, possible_donations
from lowtide.analysis.footprint import FootprintBounds, body_aliases
from lowtide.analysis.live_range import LiveRanges, live_ranges
from lowtide.analysis.scratch import ScratchBytes
from lowtide.buffers.assignment import (
    DEFAULT_SEARCH,
    PackedBuffers,
    assign_buffers,
    pack_buffers,
)
from lowtide.buffers.copy_insertion import CopyInsertion, insert_copies
from lowtide.buffers.copy_removal import remove_copies
from lowtide.ir import Computation, Instruction, LowtideError, Module, Schedule
from lowtide.ir.buffer import BufferAssignment
from lowtide.ir.clone import clone_module
from lowtide.ir.collection import without_collection
from lowtide.llvm.cache import ObjectCache
from lowtide.options import DEFAULT_STAGE, cache_folder
from lowtide.passes import Observer, run_pipeline
from lowtide.pipelines import check_stage, is_fused, pipeline
from lowtide.planning.native.machine import keep_objects
from lowtide.planning.search import Effort, SearchOptions
from lowtide.report.caveats import caveats
from lowtide.report.memory import ComputationMemory, Ladder, MemoryReport, memory_report
from lowtide.scheduling.module_scheduler import schedule_candidates, schedule_module

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
    flows = dataflow(module.entry)
    return schedule_module(flows, module.entry, aliases(module))


def optimize(module: Module, stage: str, observers: Sequence[Observer] = ()) -> int:
    """Take a module, which is changed, to a stage; return the number of changes.

    A schedule that it has is dropped where passes run. Raises LowtideError for an unknown stage.
    """
    steps = pipeline(stage)
    if steps:
        module.schedule = None
    return run_pipeline(module, steps, observers)


@dataclass(frozen=True, slots=True)
class Plan:
    """A scheduled copy of a module, where its values lie, and the report on that.

    The copy has the copies of values that the module needs, `copies`, with reasons. `ranges` are
    the live ranges that were packed.
    """

    module: Module
    copies: CopyInsertion
    assignment: BufferAssignment
    report: MemoryReport
    ranges: LiveRanges


def plan(
    module: Module,
    stage: str = DEFAULT_STAGE,
    packing: str = DEFAULT_PACKING,
    search: SearchOptions = DEFAULT_SEARCH,
    scratch_bytes: ScratchBytes | None = None,
) -> Plan:
    """Return where every value of the module lies, once it is taken to a stage.

    A scheduled module is taken as it is. `packing` is the strategy that gives out offsets, limited
    by `search`. What instructions need while they run is in the plan where `scratch_bytes` tells
    how much that is. Raises LowtideError as `explain` does, and for a strategy that is not known or
    does not take what the module has.
    """
    laid_out = _lay_out(module, stage, packing, search, scratch_bytes)
    ordered = laid_out.scheduled
    with ordered.clock.stage("assignment"):
        assignment = assign_buffers(laid_out.ranges, laid_out.packed)
    report = _report(laid_out, counts_scratch=scratch_bytes is not None)
    return Plan(ordered.module, ordered.copies, assignment, report, laid_out.ranges)


def explain(
    module: Module, stage: str = DEFAULT_STAGE, search: SearchOptions = DEFAULT_SEARCH
) -> MemoryReport:
    """Return the memory report of a module, which is not changed.

    A scheduled module is taken as it is; another one is taken to a stage and scheduled first. At
    stage "input" nothing is optimized. Copies that execution needs are inserted. Raises
    LowtideError for an unknown stage, and for a program that runs one computation from so many
    places that it cannot be written out.
    """
    return _report(_lay_out(module, stage, search=search))


@dataclass(frozen=True, eq=False, slots=True)
class _Scheduled:
    """A module on its way: copied, taken to a stage, with copies of values, and scheduled."""

    was_scheduled: bool
    was_fused: bool
    module: Module
    copies: CopyInsertion
    flows: Dataflow
    bounds: FootprintBounds
    aliases: tuple[Alias, ...]
    clock: _Clock


@dataclass(frozen=True, eq=False, slots=True)
class _LaidOut:
    """A scheduled module, and where its values lie."""

    scheduled: _Scheduled
    ranges: LiveRanges
    packed: PackedBuffers


def scheduled(module: Module, stage: str = DEFAULT_STAGE) -> Module:
    """Return a copy of a module, taken to a stage, with the copies of values that its order needs.

    A scheduled module is taken as it is, but for copies. Raises LowtideError as `explain` does.
    """
    return _ordered(module, stage).module


def _ordered(module: Module, stage: str) -> _Scheduled:
    check_stage(stage)
    _keep_solvers()
    clock = _Clock()
    was_scheduled = module.is_scheduled
    module = clone_module(module)
    if not was_scheduled:
        with clock.stage("passes"):
            optimize(module, stage)
    with clock.stage("dataflow"):
        bounds = FootprintBounds(_checked_dataflow(module))
        pairs = aliases(module)
    with clock.stage("copies"):
        copies = insert_copies(module)
        flows = dataflow(module.entry)
    module.schedule = _schedule(module, flows, pairs, clock)
    if not was_scheduled:
        with clock.stage("copies"):
            removed = remove_copies(module, flows, [x.copy for x in copies.copies])
            copies = copies.without(removed)
            flows = dataflow(module.entry) if removed else flows
    was_fused = is_fused(stage)
    return _Scheduled(was_scheduled, was_fused, module, copies, flows, bounds, pairs, clock)


@cache
def _keep_solvers() -> None:
    """Keep the machine code of the solvers for later processes."""
    keep_objects(ObjectCache(cache_folder() / "solvers"))


def _lay_out(
    module: Module,
    stage: str,
    packing: str = DEFAULT_PACKING,
    search: SearchOptions = DEFAULT_SEARCH,
    scratch_bytes: ScratchBytes | None = None,
) -> _LaidOut:
    with without_collection():
        ordered = _ordered(module, stage)
    clock = ordered.clock
    ranges, packed = _pack(ordered, scratch_bytes)
    with clock.stage("packing"):
        if packing != DEFAULT_PACKING:
            packed = _packed_by(packing, ranges, search)
        else:
            packed = _smaller(packed, ranges, search)
    return _LaidOut(ordered, ranges, packed)


def _schedule(module: Module, flows: Dataflow, pairs: tuple[Alias, ...], clock: _Clock) -> Schedule:
    """The order of the smallest arena among those in which about the least is live at once."""
    with clock.stage("schedule"):
        candidates = schedule_candidates(flows, module.entry, pairs)
    if len(candidates) == 1:
        return candidates[0]
    with clock.stage("liveness"):
        found = [
            live_ranges(module.entry, order.sequences, flows, pairs, owns_results=True)
            for order in candidates
        ]
    by_live = {x.live_bytes: i for i, x in reversed(list(enumerate(found)))}
    least = min(by_live)
    near = [by_live[x] for x in sorted(by_live) if x <= least * _NEARLY_LEAST][:_PACKED_ORDERS]
    if len(near) == 1:
        return candidates[near[0]]
    arenas: dict[int, int] = {}
    with clock.stage("packing"):
        for i in near:
            packed = pack_buffers(found[i])
            arenas[i] = packed.arena_bytes
            if _is_tight(packed, found[i]):
                break
    return candidates[min(arenas, key=arenas.__getitem__)]


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
            packed = pack_buffers(ranges)
        if best is None or packed.arena_bytes < best[1].arena_bytes:
            best = ranges, packed
        if _is_tight(packed, ranges) or not ranges.flat.shares_copies:
            break
    assert best is not None
    return best


def _smaller(packed: PackedBuffers, ranges: LiveRanges, search: SearchOptions) -> PackedBuffers:
    """The best packing that an effort allows to look for: more strategies, then a proof."""
    if search.effort is not Effort.FAST and not _is_tight(packed, ranges):
        found = pack_buffers(ranges, thorough=True)
        packed = min(packed, found, key=lambda x: x.arena_bytes)
    if search.effort is Effort.PROOF and packed.arena_bytes > ranges.live_bytes:
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
    module, flows, bounds, clock = ordered.module, ordered.flows, ordered.bounds, ordered.clock
    with clock.stage("bound"):
        bound = bounds.of(module.entry, ordered.aliases, owns_results=True)
    with clock.stage("computations"):
        called, left_out = _called_computations(module, flows, bounds)
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
        caveats(
            module,
            ranges,
            left_out,
            was_scheduled=ordered.was_scheduled,
            was_fused=ordered.was_fused,
            counts_scratch=counts_scratch,
        ),
    )


def _checked_dataflow(module: Module) -> Dataflow:
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
    return flows


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


def _called_computations(
    module: Module, flows: Dataflow, bounds: FootprintBounds
) -> tuple[list[ComputationMemory], int]:
    """The ladder of each called computation by itself, in order of first call from the entry.

    Each one is flattened anew with all that it calls, which adds up where calls are nested deeply:
    the second result is how many are left out for that.
    """
    sites: dict[Computation, list[tuple[Instruction, CallRole]]] = {}
    for computation in reversed(flows):
        for caller, role, callee in call_sites(computation):
            if role is not CallRole.CONDITION:
                sites.setdefault(callee, []).append((caller, role))
    sizes = flattened_sizes(list(flows))
    steps = _NESTED_STEPS * max(module.instruction_count, 1000)
    found: list[ComputationMemory] = []
    left_out = 0
    for computation, callers in sites.items():
        if sizes[computation] > steps:
            left_out += 1
            continue
        steps -= sizes[computation]
        found.append(_called_computation(computation, callers, module, flows, bounds))
    return found, left_out


_NESTED_STEPS: Final = 50
"""How many times the size of the module the called computations are flattened to, at most."""


def _called_computation(
    computation: Computation,
    callers: list[tuple[Instruction, CallRole]],
    module: Module,
    flows: Dataflow,
    bounds: FootprintBounds,
) -> ComputationMemory:
    caller, role = callers[0]
    pairs = body_aliases(flows[computation]) if role is CallRole.BODY else ()
    assert module.schedule is not None
    ranges = live_ranges(computation, module.schedule.sequences, flows, pairs)
    arena = pack_buffers(ranges).arena_bytes
    return ComputationMemory(
        computation.name,
        role.value,
        caller,
        len(callers),
        len(computation.instructions),
        Ladder(bounds.of(computation, pairs), ranges.live_bytes, arena),
    )
