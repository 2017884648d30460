"""Bound, live bytes and arena of each computation that a module runs, by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowtide.analysis.call_graph import CallRole, call_sites, flattened_sizes
from lowtide.analysis.dataflow import Dataflow
from lowtide.analysis.donation import body_aliases
from lowtide.analysis.live_range import LiveRanges, live_ranges
from lowtide.buffers.packing import pack_buffers
from lowtide.ir import Computation, Instruction, Module
from lowtide.report.memory import ComputationMemory, Ladder
from lowtide.scheduling.module_bound import Bounds
from lowtide.search.effort import Effort, SearchOptions


def called_ladders(
    module: Module, flows: Dataflow, bounds: Bounds, search: SearchOptions
) -> tuple[list[ComputationMemory], int]:
    """Return the ladder of each called computation, in order of first call from the entry.

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
        bound = bounds[computation].beyond_arguments
        found.append(_memory(computation, callers, module, flows, bound, search))
    return found, left_out


_NESTED_STEPS: Final = 50
"""How many times the size of the module the called computations are flattened to, at most."""


def _memory(
    computation: Computation,
    callers: list[tuple[Instruction, CallRole]],
    module: Module,
    flows: Dataflow,
    bound: int,
    search: SearchOptions,
) -> ComputationMemory:
    caller, role = callers[0]
    pairs = body_aliases(flows[computation]) if role is CallRole.BODY else ()
    assert module.schedule is not None
    ranges = live_ranges(computation, module.schedule.sequences, flows, pairs)
    return ComputationMemory(
        computation.name,
        role.value,
        caller,
        len(callers),
        len(computation.instructions),
        Ladder(bound, ranges.live_bytes, _arena_bytes(ranges, search)),
    )


def _arena_bytes(ranges: LiveRanges, search: SearchOptions) -> int:
    """What the buffers of a computation take beyond its arguments.

    The state of a loop lies in the arena of the module, as its temporaries do: it has no place of
    its own.
    """
    nowhere = (-1,) * len(ranges.nbytes)
    free = replace(ranges, colocation=replace(ranges.colocation, argument=nowhere))
    deadline = search.begun()
    arena = pack_buffers(free, deadline=deadline).arena_bytes - ranges.alias_bytes
    if arena - ranges.live_bytes <= ranges.live_bytes // _TIGHT:
        return arena
    if search.effort is Effort.FAST or deadline.passed:
        return arena
    thorough = pack_buffers(free, thorough=True, deadline=deadline)
    return min(arena, thorough.arena_bytes - ranges.alias_bytes)


_TIGHT: Final = 1000
"""One in how many live bytes an arena may be larger: a better packing is not worth a search."""
