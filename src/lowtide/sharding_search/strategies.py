"""Divisions that people know: by data, fully sharded, by tensors, by sequence, and mixtures.

None is told by the names of arguments. Of the classes of dimensions of arrays that are not updated,
else of all, the one that makes the quickest step alone is taken for the data. The others that then
help most, one after the other on the same axes, are the tensors; any other class may take their
place, as sequences and experts do. Fully sharded is what splits by data, with the dimensions of all
other arrays along its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lowtide.records import dataclass
from lowtide.sharding_search.division import Division
from lowtide.sharding_search.estimate import DivisionEstimate
from lowtide.sharding_search.program import ShardableProgram
from lowtide.sharding_search.travel import DimensionClass

MOST_CLASSES: Final = 16
"""So many classes are looked at by themselves."""

_MOST_TENSORS: Final = 6
_OTHERS: Final = 3

Axes = tuple[int, ...]
Estimating = Callable[[Division], DivisionEstimate | None]
"""Returns the estimate of a division; None where the effort for estimates is spent."""


@dataclass(frozen=True, eq=False, slots=True)
class Arrays:
    """The arguments of a program as strategies see them.

    `states` are arrays that no product reads, such as those of an optimizer. `cut` are dimensions
    that some operation needs whole.
    """

    program: ShardableProgram
    classes: tuple[DimensionClass, ...]
    states: frozenset[int]

    def is_updated(self, one: DimensionClass) -> bool:
        """Whether a class has dimensions of arrays that the program returns anew: no data."""
        return any(self.program.leaves[leaf].is_updated for leaf, _ in one.places)

    @property
    def cut(self) -> frozenset[tuple[int, int]]:
        """The places of classes that are cut."""
        return frozenset([place for x in self.classes if x.is_cut for place in x.places])

    def with_class(self, division: Division, one: DimensionClass, axes: Iterable[int]) -> Division:
        """Return the division in which axes split the dimensions of a class, too."""
        program = self.program
        for axis in axes:
            for place in one.places:
                division = division.given(program.mesh, program.sizes, place, axis)
        return division

    def spread(self, division: Division, leaves: Iterable[int], axes: Sequence[int]) -> Division:
        """Return the division in which arrays are split along axes, too, each in one dimension.

        That is the largest one that all of them divide, of those that no operation needs whole;
        where there is none, each axis splits what it can.
        """
        cut = self.cut
        for leaf in leaves:
            sizes = self.program.leaves[leaf].sizes
            order = sorted(range(len(sizes)), key=lambda d: ((leaf, d) in cut, -sizes[d], d))
            tried = [self._along(division, (leaf, d), axes) for d in order]
            whole = [x for x, count in tried if count == len(axes)]
            if whole:
                division = whole[0]
                continue
            for axis in axes:
                for dimension in order:
                    changed, count = self._along(division, (leaf, dimension), (axis,))
                    if count:
                        division = changed
                        break
        return division

    def _along(
        self, division: Division, place: tuple[int, int], axes: Sequence[int]
    ) -> tuple[Division, int]:
        count = 0
        for axis in axes:
            changed = division.given(self.program.mesh, self.program.sizes, place, axis)
            count += changed is not division
            division = changed
        return division, count


@dataclass(frozen=True, slots=True)
class Strategy:
    """A division to begin with; `is_usual` is one that people write by hand.

    These are by data, fully sharded, by tensors, and by data and tensors along different axes.
    """

    division: Division
    is_usual: bool = False


def strategies(arrays: Arrays, estimate: Estimating) -> Iterator[Strategy]:
    """Yield divisions by data, by tensors and by others, on all ways to deal the axes to them."""
    axes = tuple(range(len(arrays.program.mesh.sizes)))
    whole = arrays.program.whole
    yield Strategy(whole)
    alone: list[tuple[DivisionEstimate, DimensionClass]] = []
    for one in arrays.classes[:MOST_CLASSES]:
        division = arrays.with_class(whole, one, axes)
        found = estimate(division)
        if found is not None and division != whole:
            yield Strategy(division)
            alone.append((found, one))
    alone.sort(key=lambda pair: pair[0].seconds)
    if not alone:
        return
    classes = [one for _, one in alone]
    data = next((x for x in classes if not arrays.is_updated(x)), classes[0])
    others = [x for x in classes if x is not data]
    tensors, smaller = _tensors(arrays, others[:_MOST_TENSORS], estimate)
    roles = [tensors or smaller, *[[one] for one in others[:_OTHERS]]]
    if tensors and smaller:
        roles.insert(1, smaller)
    yield from _dealt(arrays, data, roles, axes)
    smallest = sorted(alone, key=lambda pair: pair[0].peak_bytes)[:_OTHERS]
    for one in [one for _, one in smallest] + tensors[:1]:
        division = arrays.with_class(whole, one, axes)
        yield Strategy(arrays.spread(division, range(len(arrays.program.leaves)), axes))


def _tensors(
    arrays: Arrays, others: Sequence[DimensionClass], estimate: Estimating
) -> tuple[list[DimensionClass], list[DimensionClass]]:
    """Return the classes that make a step quicker on all axes, and with those that make it smaller.

    The second list begins with the first one; it is empty where nothing makes a step smaller for
    its time. Each time the class is taken that helps most beside those before it.
    """
    axes = tuple(range(len(arrays.program.mesh.sizes)))
    division, left = arrays.program.whole, list(others)
    best = estimate(division)
    quicker: list[DimensionClass] = []
    smaller: list[DimensionClass] = []
    while best is not None and left:
        changed = [arrays.with_class(division, one, axes) for one in left]
        found = [(x, estimate(x)) for x in changed if x != division]
        known = [(x, after, _gain(best, after)) for x, after in found if after is not None]
        if not known:
            break
        made, after, gain = max(known, key=lambda x: x[2])
        if gain <= (0.0, 0.0):
            break
        division, best = made, after
        one = left.pop(changed.index(made))
        if gain[0] and not smaller:
            quicker.append(one)
        else:
            smaller = [*(smaller or quicker), one]
    return quicker, smaller


def _gain(before: DivisionEstimate, after: DivisionEstimate) -> tuple[float, float]:
    """The time that is won, 0 where none is, then the part by which time and bytes shrink."""
    product = before.seconds * before.peak_bytes
    smaller = 1 - after.seconds * after.peak_bytes / product if product else 0.0
    return max(0.0, before.seconds - after.seconds), smaller


def _dealt(
    arrays: Arrays, data: DimensionClass, roles: Sequence[Sequence[DimensionClass]], axes: Axes
) -> Iterator[Strategy]:
    """Yield the divisions that deal the first axes to the data and the others to another role."""
    count = len(axes)
    every = range(len(arrays.program.leaves))
    for number, role in enumerate(roles):
        for first in sorted(range(count + 1), key=lambda n: -n):
            by_data = arrays.with_class(arrays.program.whole, data, axes[:first])
            both = by_data
            for one in role:
                both = arrays.with_class(both, one, axes[first:])
            yield Strategy(both, is_usual=number == 0)
            fully = arrays.spread(both, every, axes[:first] or axes)
            yield Strategy(fully, is_usual=number == 0 and first == count)
            if arrays.states:
                yield Strategy(arrays.spread(both, sorted(arrays.states), axes[:first] or axes))
            if first < count:
                yield Strategy(arrays.spread(both, every, axes))
