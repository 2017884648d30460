"""From an optimized module to its order: copies of values, a schedule, what every order needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lowtide.analysis.call_graph import flattened_sizes, flattened_sums
from lowtide.analysis.dataflow import Dataflow, dataflow, with_host
from lowtide.analysis.donation import Alias, aliases
from lowtide.analysis.live_range import LiveRanges, live_ranges, needs_no_copies
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.buffers.copy_insertion import CopyInsertion, insert_copies
from lowtide.buffers.copy_removal import remove_copies
from lowtide.buffers.packing import pack_buffers
from lowtide.compiler.late_overwriting import with_late_overwriting
from lowtide.compiler.placing import is_tight
from lowtide.compiler.state import OptimizedModule, OrderedModule, StageClock
from lowtide.ir import LowtideError, Module, Schedule
from lowtide.ir.kept import forget_kept
from lowtide.scheduling.module_bound import Bounds, module_bounds
from lowtide.scheduling.module_model import model_graphs, with_orders
from lowtide.scheduling.module_scheduler import schedule_candidates
from lowtide.scheduling.module_search import Searches


def order(optimized: OptimizedModule) -> OrderedModule:
    """Give a module the copies of values that execution needs, and an order.

    A module that is scheduled keeps its own. Raises LowtideError for a program that is too long.
    """
    clock = optimized.clock
    options = optimized.options
    searches = Searches(options.search.effort, options.deadline, proves=options.proves)
    with clock.stage("dataflow"):
        _check_size(optimized.module)
    found = _chosen(optimized, searches)
    forget_kept(found.module)  # Passes left what they found: here is the last one who asks.
    return found


def _chosen(optimized: OptimizedModule, searches: Searches) -> OrderedModule:
    """The module with an order, or with copies that are overwritten late, where less lives then."""
    found = _ordered(optimized, searches, _NO_COPIES)
    if optimized.was_scheduled:
        return found
    with optimized.clock.stage("schedule"):
        other = with_late_overwriting(found)
    if other is None:
        return found
    module, copies = other
    late = _ordered(replace(optimized, module=module), searches, copies)
    return late if _live_bytes(late) < _live_bytes(found) else found


def _ordered(optimized: OptimizedModule, searches: Searches, made: CopyInsertion) -> OrderedModule:
    """A module, which is changed, with an order and all copies that it needs, `made` ones too."""
    module, clock, was_scheduled = optimized.module, optimized.clock, optimized.was_scheduled
    pairs = aliases(module)
    with clock.stage("copies"):
        copies = insert_copies(module)
        copies = replace(copies, copies=(*made.copies, *copies.copies))
        flows = dataflow(module.entry)
    with clock.stage("schedule"):
        models = model_graphs(module, flows)
    module.schedule = _schedule(module, flows, models, pairs, searches, clock)
    known: list[ComputationGraph] | None = with_orders(models, module.schedule)
    if not was_scheduled:
        with clock.stage("copies"):
            everywhere = with_host(module.entry, flows)
            removed = remove_copies(module, everywhere, [x.copy for x in copies.copies])
            copies = copies.without(removed)
            if removed:
                flows, known = dataflow(module.entry), None
    with clock.stage("bound"):
        bounds = module_bounds(module, searches, flows, models=known)
    if not was_scheduled and not searches.deadline.passed:
        _take_lower_orders(module, flows, pairs, bounds, clock)
    return OrderedModule(optimized, copies, flows, bounds, pairs, searches)


_NO_COPIES: Final = CopyInsertion((), ())


def _live_bytes(ordered: OrderedModule) -> int:
    module = ordered.module
    assert module.schedule is not None
    return live_ranges(
        module.entry, module.schedule.sequences, ordered.flows, ordered.aliases, owns_results=True
    ).live_bytes


def _take_lower_orders(
    module: Module, flows: Dataflow, pairs: tuple[Alias, ...], bounds: Bounds, clock: StageClock
) -> None:
    """Give computations the lower orders that bounding found, where they need no other copies."""
    lower = {x: found.lower_orders() for x, found in bounds.items() if found.found.lower}
    if not lower:
        return
    assert module.schedule is not None
    with clock.stage("schedule"):
        everywhere = with_host(module.entry, flows)
        best = dict(module.schedule.sequences)
        least = live_ranges(module.entry, best, flows, pairs, owns_results=True).live_bytes
        for computation, sequences in lower.items():
            for sequence in sequences:
                tried = {**best, computation: sequence}
                if not needs_no_copies(module.entry, tried, everywhere, pairs):
                    continue
                live = live_ranges(module.entry, tried, flows, pairs, owns_results=True).live_bytes
                if live <= least:
                    best, least = tried, live
                    break
        module.schedule = Schedule(best)


def _schedule(
    module: Module,
    flows: Dataflow,
    models: Sequence[ComputationGraph],
    pairs: tuple[Alias, ...],
    searches: Searches,
    clock: StageClock,
) -> Schedule:
    """The order of the smallest arena among those in which about the least is live at once."""
    with clock.stage("schedule"):
        candidates = schedule_candidates(module, models, searches)
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
            if is_tight(packed, found[i]):
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
