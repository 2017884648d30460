"""Small changes of a division, for a search from one that is good already."""

from __future__ import annotations

from collections.abc import Iterator

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
            freed = division
            for leaf in dict.fromkeys([leaf for leaf, _ in one.places]):
                freed = freed.without(leaf, axis)
            yield arrays.with_class(freed, one, (axis,))
            yield arrays.with_class(division, one, (axis,))
    for own in kinds:
        for axis in axes:
            freed = division
            for leaf in own:
                freed = freed.without(leaf, axis)
            yield arrays.spread(division, own, (axis,))
            yield freed
            for dimension in range(len(arrays.program.leaves[own[0]].sizes)):
                moved = freed
                for leaf in own:
                    place = (leaf, dimension)
                    moved = moved.given(arrays.program.mesh, arrays.program.sizes, place, axis)
                yield moved
    for axis in axes:
        bare = division
        for leaf in range(len(arrays.program.leaves)):
            bare = bare.without(leaf, axis)
        yield bare
        for one in arrays.classes:
            yield arrays.with_class(bare, one, (axis,))
