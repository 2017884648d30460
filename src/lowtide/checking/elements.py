"""The elements of shapes that have memory: leaves, and the address tables of tuples."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.ir import Shape, ShapeIndex


@dataclass(frozen=True, slots=True)
class CheckedElement:
    """An element of a shape. `leaf` counts the leaves, -1 for a tuple."""

    index: ShapeIndex
    shape: Shape
    leaf: int
    nbytes: int


class CheckedElements:
    """Lists the elements of shapes, depth first, a tuple before what it holds.

    Tuples are elements themselves only with `tables`, for plans that give room to their tables of
    addresses.
    """

    def __init__(self, *, tables: bool) -> None:
        self.tables = tables
        self._lists: dict[Shape, tuple[CheckedElement, ...]] = {}
        self._starts: dict[Shape, list[int]] = {}

    def of(self, shape: Shape) -> tuple[CheckedElement, ...]:
        """Return the elements of a shape."""
        found = self._lists.get(shape)
        if found is None:
            found = self._lists[shape] = tuple(self._list(shape))
        return found

    def _list(self, shape: Shape) -> list[CheckedElement]:
        found = []
        leaves = 0
        for index, part in shape.subshapes():
            if not part.is_tuple:
                found.append(CheckedElement(index, part, leaves, part.nbytes))
                leaves += 1
            elif self.tables:
                found.append(CheckedElement(index, part, -1, part.nbytes))
        return found

    def count(self, shape: Shape) -> int:
        """Return the number of elements."""
        return self._bounds(shape)[-1] if shape.is_tuple else 1

    def part(self, shape: Shape, index: ShapeIndex) -> slice:
        """Return where the elements of the subshape at `index` stand among those of `shape`."""
        start = 0
        for number in index:
            start += self._bounds(shape)[number]
            shape = shape.tuple_shapes[number]
        return slice(start, start + self.count(shape))

    def _bounds(self, shape: Shape) -> list[int]:
        """Per element of a tuple the number of elements in front of it, and the total."""
        bounds = self._starts.get(shape)
        if bounds is None:
            bounds = [1 if self.tables else 0]
            for part in shape.tuple_shapes:
                bounds.append(bounds[-1] + self.count(part))
            self._starts[shape] = bounds
        return bounds
