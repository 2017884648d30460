"""Dropping gaps until a sequence fits, and taking back what turns out needless; compiled."""

from __future__ import annotations

from typing import Final

from lowtide.remat.lazy import cost_of, unfold
from lowtide.remat.measure import measure
from lowtide.remat.tables import (
    BUFFER,
    BUFFER_COUNT,
    BUFFERS_AT,
    COST,
    NODE,
    NODE_COUNT,
    NODES_AT,
    PRODUCER,
    READS,
    READS_END,
    SIZE,
)
from lowtide.search.kernels import Array, FloatArray, kernel

ANY: Final = 1 << 62
CLOSURE: Final = 60
"""The cost of running a node again counts at most so many nodes."""
MOST_AT_ONCE: Final = 12


@kernel
def held_at(h: Array, dropped: Array, first: int, last: int, ends: int, j: int) -> int:
    """Whether a buffer is held at position `j`, before which the gaps from `first` begin."""
    k = first
    while k < last - 1 and h[ends + k] < j:
        k += 1
    return int(1 - dropped[k])


@kernel
def closure_cost(
    g: Array, h: Array, dropped: Array, p: int, j: int, most: int, stamp: int, room: Array
) -> int:
    """Return the ticks of running `p` again before position `j` with what is missing for it.

    No more than `most` nodes are looked at. `room`: two numbers per node.
    """
    count = g[NODE_COUNT]
    gaps = 3 * count
    ends = gaps + g[BUFFER_COUNT] + 1
    total = 0
    depth = 1
    seen = 0
    room[count] = p
    room[p] = stamp
    while depth > 0:
        depth -= 1
        node = NODES_AT + 1 + room[count + depth] * NODE
        total += g[node + COST]
        seen += 1
        if seen > most:
            break
        for i in range(g[node + READS], g[node + READS_END]):
            a = g[i]
            q = g[g[BUFFERS_AT] + a * BUFFER + PRODUCER]
            if q < 0:
                continue
            if room[q] == stamp or h[2 * count + q] < j:
                continue
            if held_at(h, dropped, h[gaps + a], h[gaps + a + 1], ends, j):
                continue
            room[q] = stamp
            room[count + depth] = q
            depth += 1
    return int(total)


@kernel
def open_gaps(g: Array, h: Array, dropped: Array, worst: int, found: Array) -> int:
    """Write (gap, buffer, where it begins) of those that can be dropped over position `worst`.

    Returns how many there are. `found`: three numbers per buffer.
    """
    count = g[NODE_COUNT]
    buffers = g[BUFFER_COUNT]
    gaps = 3 * count
    ends = gaps + buffers + 1
    total = 0
    for b in range(buffers):
        record = g[BUFFERS_AT] + b * BUFFER
        p = g[record + PRODUCER]
        if g[record + SIZE] == 0 or p < 0:
            continue
        if h[count + p] >= worst:
            continue
        k = h[gaps + b]
        last = h[gaps + b + 1] - 1
        while k < last and h[ends + k] < worst:
            k += 1
        j = h[ends + k]
        if dropped[k] > 0 or j <= worst or j >= count or h[2 * count + p] < j:
            continue
        found[3 * total] = k
        found[3 * total + 1] = b
        found[3 * total + 2] = h[ends + k - 1] if k > h[gaps + b] else h[count + p]
        total += 1
    return int(total)


@kernel
def rate_gaps(
    g: Array,
    h: Array,
    dropped: Array,
    found: Array,
    total: int,
    excess: int,
    over: Array,
    seed: int,
    score: FloatArray,
    room: Array,
) -> int:
    """Write the score of each gap found: bytes and root of the steps covered, by cost, squared.

    `over[i]`: how many positions before `i` are above the cap, of which the peak is `excess` bytes
    above. With a `seed` above 0 costs are blurred. `room`: two numbers per node. Returns `total`.
    """
    count = g[NODE_COUNT]
    ends = 3 * count + g[BUFFER_COUNT] + 1
    for v in range(count):
        room[v] = -1
    for c in range(total):
        b = found[3 * c + 1]
        j = h[ends + found[3 * c]]
        p = g[g[BUFFERS_AT] + b * BUFFER + PRODUCER]
        spent = float(closure_cost(g, h, dropped, p, j, CLOSURE, b, room) + 1)
        if seed > 0:
            seed = (seed * 1103515245 + 12345) & 2147483647
            spent = spent * (1.0 + float(seed >> 15) / 65536.0)
        covered = max(over[j] - over[found[3 * c + 2] + 1], 1)
        worth = float(min(2 * g[g[BUFFERS_AT] + b * BUFFER + SIZE], 3 * excess))
        score[c] = worth * worth * float(covered) / (spent * spent)
    return total


@kernel
def drop_best(
    g: Array, found: Array, total: int, excess: int, score: FloatArray, dropped: Array
) -> int:
    """Drop the gaps of highest score; return how many.

    Those make up for a quarter of `excess`, or are twelve, or all.
    """
    freed = 0
    added = 0
    while added < total and added < MOST_AT_ONCE and 4 * freed < excess:
        best = 0
        for c in range(total):
            if score[c] > score[best]:
                best = c
        score[best] = -1.0
        dropped[found[3 * best]] = 1
        freed += g[g[BUFFERS_AT] + found[3 * best + 1] * BUFFER + SIZE]
        added += 1
    return int(added)


@kernel
def fit(
    g: Array,
    h: Array,
    dropped: Array,
    cap: int,
    reach: int,
    rounds: int,
    seed: int,
    sequence: Array,
    steps: Array,
    over: Array,
    found: Array,
    score: FloatArray,
    room: Array,
) -> int:
    """Drop gaps until the sequence holds at most `cap` bytes; return its length, -1 for none.

    `found`: three numbers per buffer; `room`: what `unfold` and `measure` take.
    """
    count = g[NODE_COUNT]
    for _ in range(rounds):
        length = unfold(g, h, dropped, reach, sequence, room)
        if length < 0:
            return -1
        peak = measure(g, sequence, length, ANY, steps, room)
        if peak <= cap:
            return length
        worst = 0
        for t in range(length):
            if steps[t] > steps[worst]:
                worst = t
        for i in range(count + 2):
            over[i] = 0
        for t in range(length):
            if steps[t] > cap:
                over[sequence[4 * count + t] + 1] = 1
        for i in range(count + 1):
            over[i + 1] += over[i]
        at = sequence[4 * count + worst]
        if seed > 0:
            seed = (seed * 69069 + 1) & 2147483647
        total = open_gaps(g, h, dropped, at, found)
        rate_gaps(g, h, dropped, found, total, peak - cap, over, seed, score, room)
        if drop_best(g, found, total, peak - cap, score, dropped) == 0:
            return -1
    return -1


@kernel
def prune(
    g: Array,
    h: Array,
    dropped: Array,
    gaps: Array,
    gap_count: int,
    cap: int,
    reach: int,
    sequence: Array,
    steps: Array,
    room: Array,
) -> int:
    """Hold the gaps in `gaps` one by one where that is no dearer and fits; return the ticks."""
    best = ANY
    length = unfold(g, h, dropped, reach, sequence, room)
    best = cost_of(g, sequence, length)
    for c in range(gap_count):
        k = gaps[c]
        dropped[k] = 1 - dropped[k]
        length = unfold(g, h, dropped, reach, sequence, room)
        cost = ANY
        if length >= 0:
            cost = cost_of(g, sequence, length)
        if cost > best:
            dropped[k] = 1 - dropped[k]
            continue
        if measure(g, sequence, length, cap, steps, room) > cap:
            dropped[k] = 1 - dropped[k]
            continue
        best = cost
    return int(best)


@kernel
def margins(
    g: Array,
    h: Array,
    dropped: Array,
    gaps: Array,
    gap_count: int,
    reach: int,
    sequence: Array,
    margin: Array,
    room: Array,
) -> int:
    """Write how many ticks each gap costs or saves when it alone changes; return the ticks now."""
    length = unfold(g, h, dropped, reach, sequence, room)
    now = cost_of(g, sequence, length)
    for c in range(gap_count):
        k = gaps[c]
        dropped[k] = 1 - dropped[k]
        length = unfold(g, h, dropped, reach, sequence, room)
        margin[c] = ANY
        if length >= 0:
            margin[c] = cost_of(g, sequence, length) - now
        dropped[k] = 1 - dropped[k]
    return int(now)
