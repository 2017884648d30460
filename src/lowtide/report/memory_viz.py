"""A plan as a snapshot of PyTorch's allocator, for the viewer at pytorch.org/memory_viz.

The format is a pickle of dictionaries: `segments` have the blocks that are taken in the end, and
`device_traces` what was taken and given back, in order. A step of the plan lasts a microsecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lowtide.report.blame import user_frames
from lowtide.report.drawing import harmless
from lowtide.report.peak import PeakBuffer
from lowtide.report.pickled import pickled
from lowtide.report.plan_page import PictureBuffer, PlanPicture

_ARENA: Final = 1 << 40
"""The address of the arena; what lies in arguments follows the arena, each in its own place."""
_ALIGNMENT: Final = 512


def memory_viz(picture: PlanPicture) -> bytes:
    """Return the pickle: the arena and arguments that are overwritten as segments, and a trace."""
    buffers = [x for x in picture.buffers if x.nbytes]
    arena = max([x.offset + x.nbytes for x in buffers], default=0)
    outside = _outside(buffers, arena)
    address = {i: _ARENA + x.offset for i, x in enumerate(buffers) if x.offset >= 0} | outside
    spans = [(_ARENA, arena), *[(outside[i], buffers[i].nbytes) for i in outside]]
    end = max(0, len(picture.steps) - 1)
    blocks = [(address[i], x) for i, x in enumerate(buffers) if x.last >= end]
    segments = [_segment(start, size, blocks) for start, size in spans if size]
    trace = [_event("segment_alloc", start, size, 0, []) for start, size in spans if size]
    trace += _events(buffers, address, end)
    document = {
        "segments": segments,
        "device_traces": [trace],
        "allocator_settings": {},
        "external_annotations": [],
    }
    return pickled(document)


def _outside(buffers: Sequence[PictureBuffer], arena: int) -> dict[int, int]:
    """The addresses of buffers in the memory of arguments, by number, behind the arena."""
    at, found = _ARENA + _up(arena), {}
    for number, x in enumerate(buffers):
        if x.offset < 0:
            found[number] = at
            at += _up(x.nbytes)
    return found


def _up(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _events(
    buffers: Sequence[PictureBuffer], address: dict[int, int], end: int
) -> list[dict[str, Any]]:
    """What is given back before a step comes before what is taken in it."""
    rows = []
    for number, x in enumerate(buffers):
        frames = _frames(x.held)
        rows.append(
            (x.first, 1, number, _event("alloc", address[number], x.nbytes, x.first, frames))
        )
        if x.last < end:
            for kind in ("free_requested", "free_completed"):
                event = _event(kind, address[number], x.nbytes, x.last + 1, frames)
                rows.append((x.last + 1, 0, number, event))
    return [event for *_, event in sorted(rows, key=lambda row: row[:3])]


def _event(
    action: str, address: int, size: int, step: int, frames: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": step,
        "frames": frames,
    }


def _segment(start: int, size: int, taken: Sequence[tuple[int, PictureBuffer]]) -> dict[str, Any]:
    inside = sorted(
        [(at, x) for at, x in taken if start <= at < start + size], key=lambda row: row[0]
    )
    blocks: list[dict[str, Any]] = []
    at = start
    for address, x in inside:
        if address > at:
            blocks.append(_block(at, address - at, "inactive", []))
        if address >= at:
            blocks.append(_block(address, x.nbytes, "active_allocated", _frames(x.held)))
            at = address + x.nbytes
    if at < start + size:
        blocks.append(_block(at, start + size - at, "inactive", []))
    active = sum([x["size"] for x in blocks if x["state"] != "inactive"])
    return {
        "device": 0,
        "address": start,
        "total_size": size,
        "allocated_size": active,
        "active_size": active,
        "requested_size": active,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _block(address: int, size: int, state: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": state,
        "frames": frames,
    }


def _frames(held: PeakBuffer) -> list[dict[str, Any]]:
    """The buffer itself, then the calls that made it, innermost first."""
    calls = [
        {"filename": harmless(x.file), "line": x.line, "name": harmless(x.function)}
        for x in user_frames(held.stack)
    ]
    return [{"filename": harmless(held.shape), "line": 0, "name": harmless(held.name)}, *calls]
