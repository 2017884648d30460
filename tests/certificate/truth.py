"""What is true of a small certificate: by trying everything, apart from the checker."""

from functools import cache
from itertools import pairwise, permutations, product


def is_optimal(document):
    """Whether the plan of a certificate is right and no other is smaller."""
    problem, plan = document["problem"], document["plan"]
    if document["kind"] == "offsets":
        places = [tuple(place) for place in plan["places"]]
        return (
            _lie_apart(problem, places)
            and plan["height"] == _height(problem, places)
            and plan["height"] == least_height(problem)
        )
    return (
        _may_share(problem, plan["objects"])
        and _are_large(problem, plan["objects"], plan["sizes"])
        and plan["total"] == sum(plan["sizes"])
        and plan["total"] == least_total(problem)
    )


# -- offsets -----------------------------------------------------------------------------------


def _meet(own, other):
    return any(a <= d and c <= b for a, b in own for c, d in other)


def _lie_apart(problem, places):
    buffers = problem["buffers"]
    for i, (size, alignment, fixed, own) in enumerate(buffers):
        region, offset = places[i]
        if (fixed and tuple(fixed) != places[i]) or offset % alignment:
            return False
        if region and offset + size > problem["regions"][region - 1]:
            return False
        for j in range(i):
            above, below = places[j][1] + buffers[j][0], places[j][1]
            if (
                places[j][0] == region
                and size * buffers[j][0]
                and _meet(own, buffers[j][3])
                and offset < above
                and below < offset + size
            ):
                return False
    return True


def _height(problem, places):
    ends = [
        y + size for (x, y), (size, *_) in zip(places, problem["buffers"], strict=True) if not x
    ]
    return max(ends, default=0)


def least_height(problem):
    """The height of the lowest packing, None where there is none.

    In some order each buffer lies at the lowest place that those before it and the fixed ones
    leave.
    """
    fixed = {i: tuple(x[2]) for i, x in enumerate(problem["buffers"]) if x[2]}
    free = [i for i in range(len(problem["buffers"])) if i not in fixed]
    heights = [
        height
        for choice in product(range(len(problem["regions"]) + 1), repeat=len(free))
        for order in permutations(free)
        if (height := _first_fit(problem, fixed, order, dict(zip(free, choice, strict=True))))
        is not None
    ]
    return min(heights, default=None)


def _first_fit(problem, fixed, order, region_of):
    buffers, places = problem["buffers"], dict(fixed)
    for i in order:
        size, step, _, own = buffers[i]
        near = [
            (places[j][1], places[j][1] + buffers[j][0])
            for j in places
            if places[j][0] == region_of[i] and buffers[j][0] and _meet(own, buffers[j][3])
        ]
        offset = 0
        while blocks := [end for begin, end in near if begin < offset + size and offset < end]:
            offset = -(-max(blocks) // step) * step
        places[i] = (region_of[i], offset)
    ordered = [places[i] for i in range(len(buffers))]
    return _height(problem, ordered) if _lie_apart(problem, ordered) else None


# -- objects -----------------------------------------------------------------------------------


def _may_share(problem, objects):
    tensors, pairs = problem["tensors"], {(i, j) for i, j in problem["follow"]}
    for number in {*objects}:
        inside = [i for i, x in enumerate(objects) if x == number]
        inside.sort(key=lambda i: tensors[i][1:])
        if pairs and not pairs.issuperset(pairwise(inside)):
            return False
        large = [i for i in inside if tensors[i][0]]  # one of no bytes is in nobody's way
        if any(tensors[j][1] <= tensors[i][2] for i, j in pairwise(large)):
            return False
    return True


def _are_large(problem, objects, sizes):
    needed = [size for size, _, _ in problem["tensors"]]
    return all(sizes[x] >= size for x, size in zip(objects, needed, strict=True))


def _object_sizes(problem, objects):
    sizes = [0] * (max(objects, default=-1) + 1)
    for number, (size, _, _) in zip(objects, problem["tensors"], strict=True):
        sizes[number] = max(sizes[number], size)
    return sizes


def least_total(problem):
    """The least sum of the sizes of objects, of whatever order of tensors."""
    free = {**problem, "follow": []}
    return min(
        [
            sum(_object_sizes(problem, objects))
            for objects in _partitions(len(problem["tensors"]))
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
