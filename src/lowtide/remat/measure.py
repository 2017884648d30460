"""The bytes that a sequence of nodes holds at each step, by one walk backwards; compiled."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.remat.tables import (
    BUFFER,
    BUFFER_COUNT,
    BUFFERS_AT,
    LIVE_OUT,
    MADE,
    MADE_END,
    MATCHING,
    NODE,
    NODES_AT,
    PAIRS,
    PAIRS_END,
    PRODUCER,
    READS,
    READS_END,
    SCRATCH,
    SIZE,
    USES,
    USES_END,
    Int64Array,
    Tables,
)
from lowtide.search.kernels import Array, kernel

ROOM: Final = 7
"""Numbers per buffer that `measure` works with."""
NO_CAP: Final = 1 << 62


@kernel
def measure(g: Array, sequence: Array, length: int, cap: int, steps: Array, room: Array) -> int:
    """Return the peak of `sequence[:length]` in bytes, and the bytes of each step in `steps`.

    Walking backwards, a buffer becomes live where it is read and stops to be where it is made: each
    instance is held for its readers and no longer. The bytes of the last step above `cap` are
    returned at once; the steps before it are not written then. `g`: the words of `Tables`; `room`:
    ROOM numbers per buffer.
    """
    count = g[BUFFER_COUNT]
    base = g[BUFFERS_AT]
    held = 0
    entering = 0
    for b in range(count):
        record = base + b * BUFFER
        room[b] = g[record + LIVE_OUT]
        room[count + b] = 0
        if room[b]:
            held += g[record + SIZE]
        elif g[record + PRODUCER] < 0 and g[record + USES] == g[record + USES_END]:
            entering += g[record + SIZE]
    peak = 0
    for t in range(length - 1, -1, -1):
        node = NODES_AT + 1 + sequence[t] * NODE
        here = held + g[node + SCRATCH]
        if t == 0:
            here += entering
        for i in range(g[node + MADE], g[node + MADE_END]):
            b = g[i]
            if room[b]:
                held -= g[base + b * BUFFER + SIZE]
            else:
                here += g[base + b * BUFFER + SIZE]
            room[b] = 0
        for i in range(g[node + READS], g[node + READS_END]):
            b = g[i]
            if room[b] == 0:
                room[b] = 1
                room[count + b] = t + 1
                held += g[base + b * BUFFER + SIZE]
                here += g[base + b * BUFFER + SIZE]
        if g[node + PAIRS] != g[node + PAIRS_END]:
            here -= taken_over(g, node, t + 1, room)
        steps[t] = here
        peak = max(peak, here)
        if here > cap:
            return int(here)
    return int(peak)


@kernel
def taken_over(g: Array, node: int, stamp: int, room: Array) -> int:
    """Return the bytes that a largest matching takes over from operands that die: marked `stamp`.

    Buffers that are connected by pairs have equal bytes, so most pairs are most bytes: augmenting
    paths, breadth first (Berge 1957).
    """
    count = g[BUFFER_COUNT]
    base = g[BUFFERS_AT]
    first = g[node + PAIRS]
    last = g[node + PAIRS_END]
    total = 0
    if g[node + MATCHING] == 0:
        for i in range(first, last, 2):
            record = base + g[i] * BUFFER
            if total == 0 and room[count + g[i]] == stamp and g[record + LIVE_OUT] == 0:
                total = g[record + SIZE]
        return int(total)
    for i in range(first, last, 2):
        room[2 * count + g[i]] = -1
        room[3 * count + g[i + 1]] = -1
        room[5 * count + g[i]] = -1
        room[5 * count + g[i + 1]] = -1
    for i in range(first, last, 2):
        maker = g[i + 1]
        if room[5 * count + maker] < 0:
            room[5 * count + maker] = maker
            total += augmented(g, node, stamp, room, maker) * g[base + maker * BUFFER + SIZE]
    return int(total)


@kernel
def augmented(g: Array, node: int, stamp: int, room: Array, maker: int) -> int:
    """Match one more buffer if that can be; return how many more are matched, 0 or 1.

    Per buffer, `room` has who takes an operand (third row), which operand is taken (fourth), from
    whom an operand was reached (fifth), in whose search (sixth), and the queue (seventh).
    """
    count = g[BUFFER_COUNT]
    base = g[BUFFERS_AT]
    room[6 * count] = maker
    begin = 0
    end = 1
    while begin < end:
        x = room[6 * count + begin]
        begin += 1
        for i in range(g[node + PAIRS], g[node + PAIRS_END], 2):
            read = g[i]
            if g[i + 1] != x or room[count + read] != stamp:
                continue
            if room[5 * count + read] == maker or g[base + read * BUFFER + LIVE_OUT] != 0:
                continue
            room[5 * count + read] = maker
            room[4 * count + read] = x
            if room[2 * count + read] >= 0:
                room[6 * count + end] = room[2 * count + read]
                end += 1
                continue
            while read >= 0:
                owner = room[4 * count + read]
                before = room[3 * count + owner]
                room[2 * count + read] = owner
                room[3 * count + owner] = read
                read = before
            return 1
    return 0


def step_bytes(tables: Tables, sequence: Int64Array) -> Int64Array:
    """Return the bytes of each step of a sequence."""
    steps = np.zeros(len(sequence), np.int64)
    room = np.zeros(ROOM * tables.buffer_count + 1, np.int64)
    measure(tables.words, sequence, len(sequence), NO_CAP, steps, room)
    return steps
