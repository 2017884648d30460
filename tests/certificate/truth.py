"""What is true of a small certificate: by trying everything, apart from the checker."""

from functools import cache
from itertools import pairwise, permutations, product


def is_optimal(document):
    """Whether the plan of a certificate is right and no other is smaller."""
    problem, plan = document["problem"], document["plan"]
    if document["kind"] == "offsets":
        places = list(zip(plan["region"], plan["offset"], strict=True))
        return (
            _lie_apart(problem, places)
            and plan["height"] == _height(problem, places)
            and plan["height"] == least_height(problem)
        )
    return (
        _may_share(problem, plan["object"])
        and plan["size"] == _object_sizes(problem, plan["object"])
        and plan["total"] == sum(plan["size"])
        and plan["total"] == least_total(problem)
    )


# -- offsets -----------------------------------------------------------------------------------


def _stretches(problem):
    found = [[] for _ in problem["size"]]
    rows = zip(problem["buffer"], problem["first"], problem["last"], strict=True)
    for buffer, first, last in rows:
        found[buffer].append((first, last))
    return found


def _meet(own, other):
    return any(a <= d and c <= b for a, b in own for c, d in other)


def _lie_apart(problem, places):
    stretches = _stretches(problem)
    for i, (region, offset) in enumerate(places):
        fixed = (problem["fixed_in"][i], problem["fixed_at"][i])
        if fixed[1] >= 0 and fixed != (region, offset):
            return False
        if offset < 0 or offset % problem["alignment"][i]:
            return False
        if region >= 0 and offset + problem["size"][i] > problem["regions"][region]:
            return False
        for j in range(i):
            if (
                places[j][0] == region
                and problem["size"][i] * problem["size"][j]
                and _meet(stretches[i], stretches[j])
                and offset < places[j][1] + problem["size"][j]
                and places[j][1] < offset + problem["size"][i]
            ):
                return False
    return True


def _height(problem, places):
    ends = [y + size for (x, y), size in zip(places, problem["size"], strict=True) if x < 0]
    return max(ends, default=0)


def least_height(problem):
    """The height of the lowest packing, None where there is none.

    In some order each buffer lies at the lowest place that those before it and the fixed ones
    leave.
    """
    count = len(problem["size"])
    fixed = [i for i in range(count) if problem["fixed_at"][i] >= 0]
    free = [i for i in range(count) if i not in fixed]
    heights = [
        height
        for choice in product(range(-1, len(problem["regions"])), repeat=len(free))
        for order in permutations(free)
        if (height := _first_fit(problem, fixed, order, dict(zip(free, choice, strict=True))))
        is not None
    ]
    return min(heights, default=None)


def _first_fit(problem, fixed, order, region_of):
    sizes, stretches = problem["size"], _stretches(problem)
    places = {i: (problem["fixed_in"][i], problem["fixed_at"][i]) for i in fixed}
    for i in order:
        step = problem["alignment"][i]
        near = [
            (places[j][1], places[j][1] + sizes[j])
            for j in places
            if places[j][0] == region_of[i] and sizes[j] and _meet(stretches[i], stretches[j])
        ]
        offset = 0
        while blocks := [end for begin, end in near if begin < offset + sizes[i] and offset < end]:
            offset = -(-max(blocks) // step) * step
        places[i] = (region_of[i], offset)
    places = [places[i] for i in range(len(sizes))]
    return _height(problem, places) if _lie_apart(problem, places) else None


# -- objects -----------------------------------------------------------------------------------


def _may_share(problem, objects):
    first, last = problem["first"], problem["last"]
    pairs = set(zip(problem["before"], problem["after"], strict=True))
    for number in set(objects):
        inside = sorted([i for i, x in enumerate(objects) if x == number], key=lambda i: first[i])
        for i, j in pairwise(inside):
            if first[j] <= last[i] or (problem["restricted"] and (i, j) not in pairs):
                return False
    return True


def _object_sizes(problem, objects):
    return [
        max([size for size, x in zip(problem["size"], objects, strict=True) if x == number])
        for number in range(max(objects, default=-1) + 1)
    ]


def least_total(problem):
    """The least sum of the sizes of objects, of whatever order of tensors."""
    free = {**problem, "restricted": 0}
    return min(
        [
            sum(_object_sizes(problem, objects))
            for objects in _partitions(len(problem["size"]))
            if _may_share(free, objects)
        ]
    )


@cache
def _partitions(count):
    """All ways to number objects in order of first use."""
    found = [()]
    for _ in range(count):
        found = [(*x, number) for x in found for number in range(max(x, default=-1) + 2)]
    return found
