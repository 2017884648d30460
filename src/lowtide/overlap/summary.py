"""The simulated step in words, as data, and slice by slice for a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowtide.cost.devices import DeviceRecord
from lowtide.overlap.hiding import HiddenStep
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class StepSlice:
    """What a device, track 0, or a link, from 1 on, does from `begin` on, for so many seconds."""

    track: int
    name: str
    opcode: str
    begin: float
    seconds: float


def step_json(found: HiddenStep) -> dict[str, Any]:
    """Return the step as JSON: times in seconds, memory in bytes, `hidden` as a part of 1."""
    return {
        "seconds": found.step.step.seconds,
        "bound_seconds": found.step.bound_seconds,
        "in_given_order_seconds": found.given.step.seconds,
        "communication_seconds": found.step.sending,
        "hidden": found.step.hidden,
        "arena_bytes": found.arena_bytes,
        "cap_bytes": found.cap_bytes,
        "fits": found.fits,
        "reordered": not found.is_given,
        "tried": found.tried,
    }


def step_line(found: HiddenStep) -> str:
    """Return the step in one line."""
    step = found.step
    words = (
        f"step {_milliseconds(step.step.seconds)} simulated, "
        f"bound {_milliseconds(step.bound_seconds)}; "
        f"communication {_milliseconds(step.sending)}, {step.hidden:.0%} hidden; "
        f"arena {found.arena_bytes:,} bytes"
    )
    if found.cap_bytes < 0:
        return f"{words}: arguments and results take {-found.cap_bytes:,} more than is allowed"
    words += f", cap {found.cap_bytes:,}"
    if not found.fits:
        return f"{words}: above the cap in the order of the least memory, which is kept"
    return f"{words} (in the order of the least memory)" if found.is_given else words


def step_slices(found: HiddenStep, device: DeviceRecord) -> tuple[list[str], list[StepSlice]]:
    """Return the names of the tracks and what happens on each, in the order of execution."""
    names = [device.machine.name, *[x.name for x in device.links]]
    return names, list(_slices(found))


def _slices(found: HiddenStep) -> Iterator[StepSlice]:
    step = found.step
    graph, times = step.graph, step.step
    now = 0.0
    for node in step.order:
        x = step.entry.flow.nodes[node]
        begin, took = times.begin[node], times.end[node] - times.begin[node]
        if graph.link[node] >= 0:
            yield StepSlice(1 + graph.link[node], x.name, x.opcode.value, begin, took)
            continue
        if begin > now:
            yield StepSlice(0, f"wait for {x.name}", "wait", now, begin - now)
        now = times.end[node]
        if took:
            yield StepSlice(0, x.name, x.opcode.value, begin, took)
            for link in graph.holds[node]:
                yield StepSlice(1 + link, x.name, x.opcode.value, begin, took)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
