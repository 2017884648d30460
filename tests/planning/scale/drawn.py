"""Random packing problems, and the slow way to check a packing."""

import numpy as np
from hypothesis import strategies as st

from lowtide.planning.problem import ARENA, FREE, PackingProblem


def problem(items, regions=(), fixed=None):
    """A problem from (bytes, alignment, [(first, last), ..]); the first items fill the regions.

    `fixed` are offsets in the arena by item.
    """
    rows = [(i, first, last) for i, (_, _, ranges) in enumerate(items) for first, last in ranges]
    item, first, last = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    count, fixed = len(regions), fixed or {}
    return PackingProblem(
        np.array([size for size, _, _ in items], np.int64),
        np.array([alignment for _, alignment, _ in items], np.int64),
        item,
        first,
        last,
        np.array([0 if i < count else fixed.get(i, FREE) for i in range(len(items))], np.int64),
        np.array([i if i < count else ARENA for i in range(len(items))], np.int64),
        np.array(regions, np.int64),
    )


def check(task, packing):
    """Fail unless a packing keeps to its problem, every pair compared."""
    place = list(zip(packing.region.tolist(), packing.offset.tolist(), strict=True))
    sizes = task.nbytes.tolist()
    spans = [[] for _ in sizes]
    for row, first, last in zip(task.item, task.first, task.last, strict=True):
        spans[row].append((first, last))
    for i, (region, offset) in enumerate(place):
        assert offset >= 0
        assert offset % task.alignment[i] == 0
        room = packing.arena_bytes if region == ARENA else task.region_bytes[region]
        assert offset + sizes[i] <= room
        if task.fixed_offset[i] != FREE:
            assert (region, offset) == (task.region_of[i], task.fixed_offset[i])
    for i in range(len(sizes)):
        for j in range(i):
            together = any(a <= d and c <= b for a, b in spans[i] for c, d in spans[j])
            if together and place[i][0] == place[j][0] and sizes[i] and sizes[j]:
                (_, x), (_, y) = place[i], place[j]
                assert x + sizes[i] <= y or y + sizes[j] <= x
    in_arena = [o + s for (r, o), s in zip(place, sizes, strict=True) if r == ARENA]
    assert packing.arena_bytes == max(in_arena, default=0)


def apart(pairs):
    """Ranges (first, last) from (begin, length), the overlapping ones joined."""
    joined = []
    for first, length in sorted(pairs):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], first + length))
        else:
            joined.append((first, first + length))
    return joined


def spans(most):
    """Up to `most` ranges, apart from each other."""
    pair = st.tuples(st.integers(0, 25), st.integers(0, 8))
    return st.lists(pair, min_size=1, max_size=most).map(apart)


def buffers(most_spans=1, most=30, least_bytes=1):
    """Lists of (bytes, alignment, ranges)."""
    alignment = st.sampled_from([1, 1, 1, 2, 3, 64])
    buffer = st.tuples(st.integers(least_bytes, 500), alignment, spans(most_spans))
    return st.lists(buffer, min_size=1, max_size=most)


@st.composite
def problems(draw):
    """Problems with several ranges, alignments, regions, and fixed places that do not overlap."""
    items = draw(buffers(3, 20, least_bytes=0))
    count = draw(st.integers(0, 3))
    items = [(s, 1 if i < count else a, r) for i, (s, a, r) in enumerate(items)]
    regions = [size for size, _, _ in items[:count]]
    fixed, end = {}, 0
    for i in draw(st.sets(st.integers(0, len(items) - 1), max_size=4)):
        if i >= len(regions):
            start = -(-(end + draw(st.integers(0, 50))) // items[i][1]) * items[i][1]
            fixed[i], end = start, start + items[i][0]
    return problem(items, regions, fixed)


def random_problem(seed, count, steps, longest):
    """Many buffers with sizes over several orders of magnitude, one range each."""
    draw = np.random.default_rng(seed)
    nbytes = np.exp2(draw.uniform(6, 16, count)).astype(np.int64)
    first = draw.integers(0, steps, count)
    last = first + draw.integers(0, longest, count)
    free, none = np.full(count, FREE), np.zeros(0, np.int64)
    one = np.ones(count, np.int64)
    return PackingProblem(nbytes, one, np.arange(count), first, last, free, free.copy(), none)
