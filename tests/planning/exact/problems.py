"""Small packing problems, the slow way to solve them, and an independent check of packings."""

from itertools import permutations

import numpy as np
from hypothesis import strategies as st

from lowtide.checking.packing import PackingRow, check_packing, height
from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.problem import FREE, PackingProblem, TensorUsageRecord, packing_problem


@st.composite
def problems(draw, most=6, fixed=True, gaps=True, alignments=(1, 1, 2, 4, 8)):
    """Draw problems of one arena; some with gaps, alignments, and fixed buffers that fit."""
    count = draw(st.integers(1, most))
    records = []
    for _ in range(count):
        first = draw(st.integers(0, 6))
        length = draw(st.integers(1, 5))
        records.append(TensorUsageRecord(draw(st.integers(0, 12)), first, first + length - 1))
    holes = {}
    if gaps:
        for number, (_, first, last) in enumerate(records):
            if last - first >= 2 and draw(st.booleans()):
                holes[number] = [(first + 1, first + 1)]
    each = [draw(st.sampled_from(alignments)) for _ in records]
    problem = packing_problem(records, each, gaps=holes)
    if not fixed or not draw(st.booleans()):
        return problem
    loose = first_fit(problem, draw(st.permutations(range(count))))
    held = draw(st.lists(st.integers(0, count - 1), max_size=2, unique=True))
    return packing_problem(records, each, gaps=holes, fixed={i: loose[i] for i in held})


def lives(problem):
    rows = [[] for _ in range(len(problem))]
    for i, a, b in zip(problem.item, problem.first, problem.last, strict=True):
        rows[int(i)].append((int(a), int(b)))
    return rows


def first_fit(problem: PackingProblem, order):
    """Offsets: fixed buffers where they are, then each of `order` in the lowest hole."""
    rows, sizes = lives(problem), problem.nbytes.tolist()
    placed = {i: x for i, x in enumerate(problem.fixed_offset.tolist()) if x != FREE}
    for i in order:
        if i in placed:
            continue
        near = []
        for j, at in placed.items():
            if any(a <= d and c <= b for a, b in rows[i] for c, d in rows[j]) and sizes[j]:
                near.append((at, at + sizes[j]))
        alignment, at = int(problem.alignment[i]), 0
        for begin, end in sorted(near):
            if at + sizes[i] <= begin:
                break
            at = max(at, -(-end // alignment) * alignment)
        placed[i] = at if sizes[i] else 0
    return [placed[i] for i in range(len(problem))]


def by_size(problem: PackingProblem) -> Packing:
    order = sorted(range(len(problem)), key=lambda i: -int(problem.nbytes[i]))
    return arena_packing(problem, first_fit(problem, order))


def optimum(problem: PackingProblem) -> int:
    """The smallest height: an optimal packing is the first fit of its buffers by offset."""
    free = [i for i in range(len(problem)) if problem.fixed_offset[i] == FREE]
    sizes = problem.nbytes
    heights = []
    for order in permutations(free):
        offsets = np.array(first_fit(problem, order))
        heights.append(int((offsets + sizes).max(initial=0)))
    return min(heights)


def check(problem: PackingProblem, packing: Packing) -> None:
    """Fail unless a packing of an arena is valid, and as high as it says."""
    rows = [
        PackingRow(str(i), int(a), int(b) + 1, int(problem.nbytes[i]))
        for i, a, b in zip(problem.item, problem.first, problem.last, strict=True)
    ]
    offsets = [int(packing.offset[i]) for i in problem.item]
    assert check_packing(rows, offsets) == ()
    assert packing.arena_bytes == height(rows, offsets)
    assert not (packing.offset % problem.alignment).any()
    held = problem.fixed_offset != FREE
    assert (packing.offset[held] == problem.fixed_offset[held]).all()


def cut_up(count, seed, side=1 << 20, unit=1024):
    """Records that fill a rectangle of `side` bytes without gaps, by random cuts."""
    random = np.random.default_rng(seed)
    rectangles = [(0, side, 0, side)]
    while len(rectangles) < count:
        areas = np.array([(b - a) * (d - c) for a, b, c, d in rectangles], float)
        chosen = int(random.choice(len(rectangles), p=areas / areas.sum()))
        a, b, c, d = rectangles[chosen]
        in_time = random.random() < 0.5
        low, high = (a, b) if in_time else (c, d)
        if high - low < 2 * unit:
            continue
        at = low + unit * int(random.integers(1, (high - low) // unit))
        pair = [(a, at, c, d), (at, b, c, d)] if in_time else [(a, b, c, at), (a, b, at, d)]
        rectangles[chosen] = pair[0]
        rectangles.append(pair[1])
    shuffled = [rectangles[i] for i in random.permutation(count)]
    return [TensorUsageRecord(d - c, a, b - 1) for a, b, c, d in shuffled]
