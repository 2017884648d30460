"""A check of a packing and its capacity; the reason, where no packing fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from lowtide.checking import PackingRow, check_packing
from lowtide.ir import LowtideError
from lowtide.packing.named import NamedProblem, SolvedPacking
from lowtide.planning import ARENA, FREE, PackingProblem, max_live

MOST_CHECKED: Final = 100_000
"""Plans of more buffers take seconds to check, which is left to whoever asks for it."""


class WrongPackingError(LowtideError):
    """A strategy made a plan that does not pass the checker."""


def check(named: NamedProblem, solved: SolvedPacking) -> None:
    """Raise WrongPackingError for a wrong plan; the checker shares nothing with planners."""
    problem, packing = named.problem, solved.assignment.packing
    rows = list(packing_rows(named.names, problem))
    capacities = {ARENA: solved.height, **dict(enumerate(problem.region_bytes.tolist()))}
    for region, capacity in capacities.items():
        chosen = np.flatnonzero(packing.region == region).tolist()
        offsets = [int(packing.offset[i]) for i in chosen]
        wrong = check_packing([rows[i] for i in chosen], offsets, capacity)
        if wrong:
            raise WrongPackingError(f"{solved.strategy} made a plan that is wrong: {wrong[0]}")


def packing_rows(names: Sequence[str], problem: PackingProblem) -> Iterator[PackingRow]:
    """Yield the buffers of a problem for the checker."""
    first, last = problem.spans()
    gaps = _gaps(problem) if problem.has_gaps else {}
    columns = (
        first.tolist(),
        (last + 1).tolist(),
        problem.nbytes.tolist(),
        problem.alignment.tolist(),
        problem.fixed_offset.tolist(),
    )
    for number, (lower, upper, size, alignment, fixed) in enumerate(zip(*columns, strict=True)):
        place = None if fixed == FREE else fixed
        yield PackingRow(names[number], lower, upper, size, alignment, gaps.get(number, ()), place)


def _gaps(problem: PackingProblem) -> dict[int, tuple[tuple[int, int], ...]]:
    """Per buffer with gaps the steps from the first to the last, not included, of each."""
    order = np.lexsort((problem.first, problem.item))
    item, first, last = problem.item[order], problem.first[order], problem.last[order]
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    for i in np.flatnonzero(item[1:] == item[:-1]).tolist():
        gap = (int(last[i]) + 1, int(first[i + 1]))
        found[int(item[i])] = (*found.get(int(item[i]), ()), gap)
    return found


# -- the capacity ------------------------------------------------------------------------------


class PackingPeak(NamedTuple):
    """A step at which most is live, and the buffers that are, largest first.

    Neither what is fixed in a region counts nor, of the bytes, what else fits there.
    """

    step: int
    nbytes: int
    buffers: tuple[int, ...]


def peak_of(problem: PackingProblem) -> PackingPeak:
    """Return the first step at which most bytes are live."""
    begins = np.unique(problem.first)
    if not len(begins):
        return PackingPeak(0, 0, ())
    size = problem.nbytes[problem.item]
    change = np.zeros(len(begins) + 1, np.int64)
    np.add.at(change, np.searchsorted(begins, problem.first), size)
    np.subtract.at(change, np.searchsorted(begins, problem.last, side="right"), size)
    profile = np.cumsum(change)
    step = int(begins[int(profile[:-1].argmax())])
    live = problem.item[(problem.first <= step) & (problem.last >= step)]
    live = live[problem.region_of[live] == ARENA]
    order = np.lexsort((live, -problem.nbytes[live]))
    nbytes = int(profile.max()) - int(problem.region_bytes.sum())
    return PackingPeak(step, nbytes, tuple(live[order].tolist()))


def capacity_fault(named: NamedProblem, solved: SolvedPacking, capacity: int) -> str:
    """Return why a plan is larger than `capacity` bytes, and whether that has to be; "" if not."""
    if solved.height <= capacity:
        return ""
    bound = solved.assignment.lower_bound
    if bound <= capacity:
        return (
            f"no packing of at most {capacity:,} bytes was found, and none is ruled out: the best "
            f"takes {solved.height:,}; no smaller than {bound:,} is proved needed"
        )
    return f"no packing of at most {capacity:,} bytes exists: {_reason(named, bound)}"


def _reason(named: NamedProblem, bound: int) -> str:
    """Why a bound holds: a step, what is fixed, or the search."""
    peak = peak_of(named.problem)
    if bound <= max_live(named.problem):
        largest = ", ".join([named.names[i] for i in peak.buffers[:3]])
        more = f" and {len(peak.buffers) - 3:,} more" if len(peak.buffers) > 3 else ""
        return f"{peak.nbytes:,} are live at step {peak.step:,} ({largest}{more})"
    fixed = np.flatnonzero(named.problem.fixed_offset != FREE)
    tops = (named.problem.fixed_offset + named.problem.nbytes)[fixed]
    if len(fixed) and int(tops.max()) == bound:
        name = named.names[int(fixed[int(tops.argmax())])]
        return f"{name} has to lie at {bound - int(named.problem.nbytes[fixed[tops.argmax()]]):,}"
    return f"at least {bound:,} are needed, proved by a search"
