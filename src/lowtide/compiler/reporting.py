"""The report on a module whose values have places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowtide.analysis.dataflow import Dataflow, ValueKind
from lowtide.analysis.donation import possible_donations
from lowtide.compiler.called_ladders import called_ladders
from lowtide.compiler.placing import ranges_in
from lowtide.compiler.stages import is_fused
from lowtide.compiler.state import PlacedModule
from lowtide.ir.shape import HOST_MEMORY
from lowtide.report.caveats import caveats
from lowtide.report.constants import largest_constant
from lowtide.report.memory import FixedSizes, Ladder, MemoryReport, SpaceMemory, memory_report
from lowtide.search.deadline import ended_by

if TYPE_CHECKING:
    from lowtide.least_memory import LeastMemory


def report(placed: PlacedModule, least: LeastMemory | None = None) -> MemoryReport:
    """Return the memory report of a module whose values have places.

    `least` is what each compilation of it needs, if that is known.
    """
    ordered, ranges, packed = placed.ordered, placed.ranges, placed.packed
    options = ordered.options
    module, flows, bounds, clock = ordered.module, ordered.flows, placed.bounds, ordered.clock
    bound = bounds[module.entry].beyond_arguments
    with clock.stage("computations"):
        called, left_out = called_ladders(module, flows, bounds, options.search)
    made = memory_report(
        module,
        ranges,
        Ladder(bound, ranges.live_bytes, packed.arena_bytes),
        FixedSizes(packed.temp_bytes, packed.least_arena_bytes, _constant_bytes(flows)),
        called,
        possible_donations(module, ordered.aliases),
        ordered.copies.copies,
        clock.seconds,
        [
            *options.deadline.remarks(),
            *caveats(
                module,
                ranges,
                left_out,
                was_scheduled=ordered.optimized.was_scheduled,
                was_fused=is_fused(options.stage),
                counts_scratch=options.scratch_bytes is not None,
            ),
        ],
    )
    given = ordered.optimized.was_scheduled
    if least is not None:
        from lowtide.compiler.compilation_bound import shown_by  # Only reports ask for it.

        beyond = max(least.nbytes - made.argument_bytes, 0)
        ladder = replace(made.ladder, compilation_bound_bytes=beyond)
        made = replace(made, ladder=ladder, compilation_cut=shown_by(least))
    return replace(
        made,
        spaces=tuple(_spaces(placed)),
        has_given_order=given,
        largest_constant=largest_constant(flows),
    )


def _spaces(placed: PlacedModule) -> Iterator[SpaceMemory]:
    """Yield what is needed in each memory space but the usual one."""
    ranges, host = placed.ranges, placed.host
    for space in sorted(set(ranges.flat.values.space) - {0}):
        found, packed = ranges_in(placed.ordered, space), placed.packed
        if host is not None and space == HOST_MEMORY:
            found, packed = host.ranges, host.packed
        size = found.flat.values.nbytes
        yield SpaceMemory(
            space,
            sum([size[value] for value in found.flat.parameters]),
            found.output_bytes,
            found.live_bytes,
            packed.arena_sizes.get(space, 0),
        )


def _constant_bytes(flows: Dataflow) -> int:
    return sum(
        [
            nbytes
            for flow in flows.values()
            for nbytes, kind in zip(flow.value_bytes, flow.value_kind, strict=True)
            if kind is ValueKind.CONSTANT
        ]
    )


def was_cut_short(document: Mapping[str, Any]) -> bool:
    """Return whether a deadline ended the search for the plan of a report, given as in JSON."""
    return ended_by("a deadline") in document["caveats"]
