"""Small changes of a division, for a search from one that is good already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lowtide.sharding_search.division import Division
from lowtide.sharding_search.strategies import Arrays


def neighbours(arrays: Arrays, division: Division) -> Iterator[Division]:
    """Yield divisions in which one axis is given to, or taken from, arrays that are alike.

    Those of the most bytes come first: by a class of dimensions, by shape, and from one class to
    another.
    """
    program = arrays.program
    axes = range(len(program.mesh.sizes))
    alike: dict[tuple[object, bool], list[int]] = {}
    for number, leaf in enumerate(program.leaves):
        alike.setdefault((leaf.shape, number in arrays.states), []).append(number)
    kinds = sorted(
        alike.values(), key=lambda own: -sum([program.leaves[n].shape.nbytes for n in own])
    )
    seen = {division}
    for changed in _changes(arrays, division, kinds, tuple(axes)):
        if changed not in seen:
            seen.add(changed)
            yield changed


def _changes(
    arrays: Arrays, division: Division, kinds: list[list[int]], axes: tuple[int, ...]
) -> Iterator[Division]:
    for one in arrays.classes:
        yield division.undivided(one.places)
    for axis in axes:
        for one in arrays.classes:
            freed = _without(division, [leaf for leaf, _ in one.places], axis)
            yield arrays.with_class(freed, one, (axis,))
            yield arrays.with_class(division, one, (axis,))
    for own in kinds:
        for axis in axes:
            freed = _without(division, own, axis)
            yield arrays.spread(division, own, (axis,))
            yield freed
            yield from _given(arrays, freed, own, axis)
    for axis in axes:
        bare = _without(division, range(len(arrays.program.leaves)), axis)
        yield bare
        for one in arrays.classes:
            yield arrays.with_class(bare, one, (axis,))


def _without(division: Division, leaves: Iterable[int], axis: int) -> Division:
    """Return a division in which an axis splits none of some leaves."""
    for leaf in dict.fromkeys(leaves):
        division = division.without(leaf, axis)
    return division


def _given(arrays: Arrays, division: Division, leaves: list[int], axis: int) -> Iterator[Division]:
    """Yield a division for each dimension of some leaves that an axis may split in all of them."""
    program = arrays.program
    for dimension in range(len(program.leaves[leaves[0]].sizes)):
        moved = division
        for leaf in leaves:
            moved = moved.given(program.mesh, program.sizes, (leaf, dimension), axis)
        yield moved
