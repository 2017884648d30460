"""The loops of a kernel over the elements of an array: which dimensions make one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lowtide.codegen.domain import Trial
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.indexing import Affine, Index, Variable
from lowtide.llvm.function import Integer
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class LoopSpace:
    """The dimensions of an array, of which neighbours are run through as one.

    `groups` are stretches of dimensions, as (first, end), `sizes` their numbers of elements.
    """

    dimensions: tuple[int, ...]
    groups: tuple[tuple[int, int], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of elements along each group."""
        return tuple([prod(self.dimensions[a:b]) for a, b in self.groups])

    def index(self, elements: Elements, positions: Sequence[Affine]) -> Index:
        """Return the index in the array at a position along each group."""
        found: list[Affine] = []
        for (first, end), position in zip(self.groups, positions, strict=True):
            rest, places = position, []
            for size in reversed(self.dimensions[first + 1 : end]):
                rest, place = elements.indices.split(rest, size)
                places.append(place)
            found += [rest, *reversed(places)]
        return tuple(found)


def groups_of(trial: Trial, sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return which neighbours among loops of some sizes can be one, as (first, end)."""
    if not sizes:
        return ((0, 0),)
    places = list(dict.fromkeys([place for _, place in trial.elements.reads]))
    groups = [(0, 1)]
    for d in range(1, len(sizes)):
        if _are_one(trial.variables, sizes, groups[-1], d, trial.elements, places):
            groups[-1] = (groups[-1][0], d + 1)
        else:
            groups.append((d, d + 1))
    return tuple(groups)


def _are_one(
    variables: Sequence[Variable | None],
    dimensions: tuple[int, ...],
    group: tuple[int, int],
    d: int,
    elements: Elements,
    places: list[Affine],
) -> bool:
    """Whether dimension d can be run through together with the group of those before it."""
    if dimensions[d] == 1:
        return True
    inner = variables[d]
    assert inner is not None
    before = [(i, v) for i in range(*group) if (v := variables[i]) is not None]
    if not before:
        return True
    if inner in elements.indices.fixed or any(v in elements.indices.fixed for _, v in before):
        return False
    last, outer = before[-1]
    step = prod(dimensions[last + 1 : d + 1])
    for place in places:
        factors = dict(place.terms)
        if factors.get(outer, 0) != factors.get(inner, 0) * step:
            return False
    return True


def decomposed(elements: Elements, unit: Integer, sizes: Sequence[int]) -> list[Affine]:
    """Return the position along each of some groups of a number in row-major order."""
    fn = elements.function
    found: list[Affine] = []
    rest = unit
    for size in reversed(sizes[1:]):
        found.append(elements.indices.variable(fn.rem(rest, size), size))
        rest = fn.div(rest, size)
    if sizes:
        found.append(elements.indices.variable(rest, sizes[0]))
    return found[::-1]


def decomposed_lanes(
    elements: Elements, unit: Integer, sizes: Sequence[int], *, has_lanes: bool
) -> list[Affine]:
    """Return what `decomposed` does; with lanes these count along the last group from there on."""
    if not has_lanes:
        return decomposed(elements, unit, sizes)
    fn, last = elements.function, sizes[-1]
    found = decomposed(elements, fn.div(unit, last), sizes[:-1])
    return [*found, elements.indices.variable(fn.rem(unit, last), last, is_lane=True)]


def lane_variable(elements: Elements, start: Integer, extent: int) -> Affine:
    """Return the index whose lanes count from `start`; without lanes that is `start` itself."""
    if not elements.lanes:
        return elements.indices.variable(start, extent)
    return elements.indices.variable(start, extent, is_lane=True)
