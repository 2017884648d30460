"""A division of the arguments: which axes of a mesh split each dimension of each array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from lowtide.ir.mesh import Mesh
from lowtide.ir.tilings.tiling import Tiling
from lowtide.records import dataclass
from lowtide.sharding_search.mesh import NAMES, SearchMesh

LeafAxes = tuple[tuple[int, ...], ...]
"""Of one array, the axes of the mesh that split each dimension, major first."""


@dataclass(frozen=True, slots=True)
class Division:
    """The axes that split each dimension of each array among the arguments."""

    leaves: tuple[LeafAxes, ...]

    def given(
        self, mesh: SearchMesh, sizes: Sequence[Sequence[int]], place: tuple[int, int], axis: int
    ) -> Division:
        """Return the division in which an axis splits a place (array, dimension), too.

        It is this one where the array has the axis, or where the dimension does not divide.
        """
        leaf, dimension = place
        own = self.leaves[leaf]
        if any(axis in axes for axes in own):
            return self
        longer = tuple(sorted((*own[dimension], axis)))
        if sizes[leaf][dimension] % mesh.extent(longer):
            return self
        changed = (*own[:dimension], longer, *own[dimension + 1 :])
        return Division((*self.leaves[:leaf], changed, *self.leaves[leaf + 1 :]))

    def without(self, leaf: int, axis: int) -> Division:
        """Return the division in which an axis does not split an array."""
        own = self.leaves[leaf]
        if all(axis not in axes for axes in own):
            return self
        changed = tuple([tuple([a for a in axes if a != axis]) for axes in own])
        return Division((*self.leaves[:leaf], changed, *self.leaves[leaf + 1 :]))

    def undivided(self, places: Iterable[tuple[int, int]]) -> Division:
        """Return the division in which no axis splits some dimensions of arrays."""
        leaves = list(self.leaves)
        for leaf, dimension in places:
            own = leaves[leaf]
            leaves[leaf] = (*own[:dimension], (), *own[dimension + 1 :])
        return Division(tuple(leaves))

    def tiling(self, mesh: SearchMesh, leaf: int) -> Tiling:
        """Return how an array lies on the grid of the mesh."""
        return Tiling(tuple([mesh.grid_axes(axes) for axes in self.leaves[leaf]]))

    def named(self, mesh: SearchMesh) -> NamedAxes:
        """Return the mesh as it is named for users: of a free one, joined where it can be."""
        groups: list[list[int]] = [[0]]
        for before, axis in pairwise(range(len(mesh.sizes))):
            if mesh.is_free and self._always_joined(before, axis):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        names = NAMES if mesh.is_free else mesh.names
        return NamedAxes(
            tuple([names[number] for number in range(len(groups))]),
            tuple([mesh.extent(tuple(own)) for own in groups]),
            tuple([tuple(own) for own in groups]),
        )

    def _always_joined(self, before: int, axis: int) -> bool:
        """Whether an axis stands behind another one wherever one of the two stands."""
        for leaf in self.leaves:
            for axes in leaf:
                pairs = set(pairwise(axes))
                if (before in axes or axis in axes) and (before, axis) not in pairs:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class NamedAxes:
    """The axes of a mesh as users name them, and which axes of the search make up each."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]

    @property
    def mesh(self) -> Mesh:
        """The mesh."""
        return Mesh(self.names, self.sizes)

    def of(self, axes: tuple[int, ...]) -> tuple[str, ...]:
        """Return the names of axes that split one dimension."""
        pairs = zip(self.names, self.members, strict=True)
        owner = {axis: name for name, members in pairs for axis in members}
        return tuple(dict.fromkeys([owner[axis] for axis in axes]))

    def specs(self, leaf: LeafAxes) -> tuple[tuple[str, ...], ...]:
        """Return the names of the axes that split each dimension of an array."""
        return tuple([self.of(axes) for axes in leaf])
