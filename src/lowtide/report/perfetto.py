"""Timelines as traces of Perfetto: a counter of live bytes, steps, and buffers in lanes.

The messages are few and flat, so that they are written field by field: `Trace`, `TracePacket`,
`TrackDescriptor`, `CounterDescriptor`, `TrackEvent` (Perfetto, "protos/perfetto/trace").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lowtide.report.drawing import harmless
from lowtide.report.timeline import Timeline, lanes

_PACKET: Final = 1
_TIMESTAMP: Final = 8
_SEQUENCE: Final = 10
_EVENT: Final = 11
_TRACK: Final = 60
"""Fields: of a trace its packets, of a packet its time, sequence, event or track."""

_UUID: Final = 1
_NAME: Final = 2
_COUNTER: Final = 8
_UNIT: Final = 3
"""Fields of a track, and the unit of its counter."""

_TYPE: Final = 9
_TRACK_UUID: Final = 11
_EVENT_NAME: Final = 23
_VALUE: Final = 30
"""Fields of an event."""

_BEGIN, _END, _COUNT = 1, 2, 4
"""Types of events."""
_SIZE_BYTES: Final = 3
_STEP_NANOSECONDS: Final = 1000

_LIVE_TRACK, _STEP_TRACK, _FIRST_LANE = 1, 2, 16


def timeline_perfetto(timeline: Timeline) -> bytes:
    """Return a trace; a step lasts a microsecond there, whatever it takes in truth."""
    return b"".join([_bytes(_PACKET, x) for x in _packets(timeline)])


def _packets(timeline: Timeline) -> Iterator[bytes]:
    live = _bytes(_COUNTER, _number(_UNIT, _SIZE_BYTES))
    yield _track(_LIVE_TRACK, f"live bytes of {timeline.module}", live)
    yield _track(_STEP_TRACK, "steps")
    rows = lanes(timeline.buffers)
    for lane in range(len(rows)):
        yield _track(_FIRST_LANE + lane, f"buffers {lane + 1}")
    for position, nbytes in enumerate(timeline.live_bytes):
        yield _event(position, _LIVE_TRACK, _COUNT, value=nbytes)
    for position, name in enumerate(timeline.steps):
        yield _event(position, _STEP_TRACK, _BEGIN, name)
        yield _event(position + 1, _STEP_TRACK, _END)
    for lane, buffers in enumerate(rows):
        for x in buffers:
            label = f"{x.name} {x.shape} {x.nbytes:,} bytes {x.place}".rstrip()
            yield _event(x.first, _FIRST_LANE + lane, _BEGIN, label)
            yield _event(x.last + 1, _FIRST_LANE + lane, _END)


def _track(uuid: int, name: str, more: bytes = b"") -> bytes:
    about = _number(_UUID, uuid) + _bytes(_NAME, harmless(name).encode()) + more
    return _number(_SEQUENCE, 1) + _bytes(_TRACK, about)


def _event(position: int, track: int, kind: int, name: str = "", value: int | None = None) -> bytes:
    about = _number(_TYPE, kind) + _number(_TRACK_UUID, track)
    if name:
        about += _bytes(_EVENT_NAME, harmless(name).encode())
    if value is not None:
        about += _number(_VALUE, value)
    time = _number(_TIMESTAMP, position * _STEP_NANOSECONDS)
    return time + _number(_SEQUENCE, 1) + _bytes(_EVENT, about)


# -- the wire ------------------------------------------------------------------------------------


def _number(field: int, value: int) -> bytes:
    """A field with a number of 0 or more."""
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    """A field with a message or a string."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
