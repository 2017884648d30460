"""Runs that a sequence can do without; compiled."""

from __future__ import annotations

from lowtide.remat.measure import measure
from lowtide.remat.tables import COST, NODE, NODE_COUNT, NODES_AT
from lowtide.search.kernels import Array, kernel


@kernel
def drop_runs(
    g: Array, sequence: Array, length: int, cap: int, trial: Array, steps: Array, room: Array
) -> int:
    """Take out runs that the sequence can spare within `cap` bytes; return its new length.

    The dearest go first; those of equal cost from the last to the first. The first run of a node
    stays. `trial`: as long as `sequence`, three times.
    """
    count = g[NODE_COUNT]
    seen = length
    rank = 2 * length
    for v in range(count):
        room[v] = 0
    found = 0
    for t in range(length):
        v = sequence[t]
        if room[v]:
            trial[seen + found] = t
            trial[rank + found] = g[NODES_AT + 1 + v * NODE + COST]
            found += 1
        room[v] = 1
    for _ in range(found):
        best = -1
        for k in range(found):
            if trial[rank + k] < 0:
                continue
            if best < 0 or trial[rank + k] >= trial[rank + best]:
                best = k
        trial[rank + best] = -1
        t = trial[seen + best]
        for k in range(t):
            trial[k] = sequence[k]
        for k in range(t + 1, length):
            trial[k - 1] = sequence[k]
        if measure(g, trial, length - 1, cap, steps, room) > cap:
            continue
        for k in range(t, length - 1):
            sequence[k] = sequence[k + 1]
        length -= 1
        for k in range(found):
            if trial[seen + k] > t:
                trial[seen + k] -= 1
    return length
