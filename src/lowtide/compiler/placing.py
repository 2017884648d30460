"""From an ordered module to places: live ranges, and the offset of each buffer."""

from __future__ import annotations

from lowtide.analysis.dataflow import with_host
from lowtide.analysis.live_range import LiveRanges, live_ranges
from lowtide.analysis.scratch import ScratchBytes
from lowtide.buffers.assignment import HostPlaces
from lowtide.buffers.packing import PackedBuffers, pack_buffers
from lowtide.compiler.options import DEFAULT_PACKING
from lowtide.compiler.state import OrderedModule, PlacedModule
from lowtide.ir import LowtideError
from lowtide.ir.shape import HOST_MEMORY
from lowtide.scheduling.module_bound import Bounds, module_bounds
from lowtide.search.effort import Effort, SearchOptions


def place(ordered: OrderedModule) -> PlacedModule:
    """Give each buffer of a scheduled module its offset in the arena.

    Raises LowtideError for a strategy that is not known or does not take what the module has.
    """
    clock, bounds, options = ordered.clock, ordered.bounds, ordered.options
    scratch_bytes = options.scratch_bytes
    ranges, packed = _pack(ordered, scratch_bytes)
    with clock.stage("packing"):
        if options.packing != DEFAULT_PACKING:
            packed = _packed_by(options.packing, ranges, options.search)
        else:
            packed = _smaller(packed, ranges, options.search)
    if scratch_bytes is not None and (_has_lower(bounds) or _takes_scratch(ordered, scratch_bytes)):
        with clock.stage("bound"):
            bounds = module_bounds(ordered.module, ordered.searches, ordered.flows, scratch_bytes)
    return PlacedModule(ordered, ranges, packed, bounds, _host_places(ordered, ranges))


def _has_lower(bounds: Bounds) -> bool:
    """Whether bounding found lower orders, so that the module may have others than were bounded."""
    return any(x.found.lower for x in bounds.values())


def _takes_scratch(ordered: OrderedModule, scratch_bytes: ScratchBytes) -> bool:
    """Whether something that a module runs needs memory only while it runs."""
    return any(scratch_bytes(x) for flow in ordered.flows.values() for x in flow.nodes)


def _host_places(ordered: OrderedModule, ranges: LiveRanges) -> HostPlaces | None:
    """Where arrays lie that are in the host's memory, None where none are."""
    if HOST_MEMORY not in ranges.flat.values.space:
        return None
    found = ranges_in(ordered, HOST_MEMORY)
    return HostPlaces(found, pack_buffers(found))


def ranges_in(ordered: OrderedModule, space: int) -> LiveRanges:
    """Return when the buffers of one memory space are taken, be it the host's."""
    module = ordered.module
    assert module.schedule is not None
    return live_ranges(
        module.entry,
        module.schedule.sequences,
        with_host(module.entry, ordered.flows),
        ordered.aliases,
        owns_results=True,
        space=space,
    )


def _pack(
    ordered: OrderedModule, scratch_bytes: ScratchBytes | None
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
                alignment=ordered.options.target.alignment,
            )
        with clock.stage("packing"):
            packed = pack_buffers(ranges, deadline=ordered.options.deadline)
        if best is None or packed.arena_bytes < best[1].arena_bytes:
            best = ranges, packed
        if (
            is_tight(packed, ranges)
            or not ranges.flat.shares_copies
            or ordered.options.deadline.passed
        ):
            break
    assert best is not None
    return best


def _smaller(packed: PackedBuffers, ranges: LiveRanges, search: SearchOptions) -> PackedBuffers:
    """The smallest packing that an effort allows to look for: more strategies, then a proof."""
    deadline = search.begun()
    if search.effort is not Effort.FAST and not (is_tight(packed, ranges) or deadline.passed):
        found = pack_buffers(ranges, thorough=True, deadline=deadline)
        packed = min(packed, found, key=lambda x: x.arena_bytes)
    if search.effort is not Effort.PROOF or deadline.passed:
        return packed
    if packed.arena_bytes > ranges.live_bytes:
        found = _packed_by("exact", ranges, search)
        packed = min(packed, found, key=lambda x: x.arena_bytes)
    return packed


def is_tight(packed: PackedBuffers, ranges: LiveRanges) -> bool:
    """Return whether a better packing could save less than a thousandth: not worth a search."""
    return packed.arena_bytes - ranges.live_bytes <= ranges.live_bytes // 1000


def _packed_by(packing: str, ranges: LiveRanges, search: SearchOptions) -> PackedBuffers:
    try:
        return pack_buffers(ranges, packing=packing, search=search)
    except ValueError as error:
        raise LowtideError(f"packing: {error}") from None
