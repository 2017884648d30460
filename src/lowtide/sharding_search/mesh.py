"""Meshes of devices for a search: those that users give, and those that it may cut itself."""

from __future__ import annotations

import math
import re
from typing import Final

from lowtide.ir.errors import InputError
from lowtide.ir.partitioning import MOST_DEVICES
from lowtide.ir.tilings.grid import DeviceGrid, prime_factors
from lowtide.records import dataclass

NAMES: Final = "xyzwuv"
"""The names of axes that are given none, in order."""

_MOST_FREE: Final = 3
"""Into how many axes a number of devices is cut."""

_NAMED: Final = re.compile(r"([A-Za-z_]\w*)=(\d{1,40})", re.ASCII)
_SIZE: Final = re.compile(r"\d{1,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SearchMesh:
    """The axes among which a search divides: their names and sizes, major first.

    A mesh that is `is_free` was made of a number of devices: axes that split the same dimensions
    together become one of them in what is found.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    is_free: bool = False

    @property
    def count(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes)

    @property
    def grid(self) -> DeviceGrid:
        """The grid of the devices."""
        return DeviceGrid(tuple([prime for size in self.sizes for prime in prime_factors(size)]))

    def grid_axes(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the axes of the grid that make up some of the mesh, in the same order."""
        first, found = 0, []
        for size in self.sizes:
            count = len(prime_factors(size))
            found.append(tuple(range(first, first + count)))
            first += count
        return tuple([at for axis in axes for at in found[axis]])

    def extent(self, axes: tuple[int, ...]) -> int:
        """Return into how many tiles axes cut a dimension together."""
        return math.prod([self.sizes[axis] for axis in axes])

    def __str__(self) -> str:
        return "x".join(map(str, self.sizes))


def mesh_of_devices(count: int) -> SearchMesh:
    """Return a mesh of so many devices, in few axes; raises InputError for fewer than two."""
    if not 2 <= count <= MOST_DEVICES:
        raise InputError(f"a division is over 2 to {MOST_DEVICES:,} devices, found {count:,}")
    sizes = prime_factors(count)
    while len(sizes) > _MOST_FREE:
        sizes.sort()
        sizes = [sizes[0] * sizes[1], *sizes[2:]]
    sizes.sort(reverse=True)
    return SearchMesh(tuple(NAMES[: len(sizes)]), tuple(sizes), is_free=True)


def mesh_of_text(text: str) -> SearchMesh:
    """Return the mesh of a text such as `4x2` or `data=4,model=2`.

    Axes of size 1 split nothing and are left out. Raises InputError for any other text.
    """
    parts = text.split(",") if "=" in text else text.lower().split("x")
    pairs: list[tuple[str, int]] = []
    for number, part in enumerate(parts):
        named = _NAMED.fullmatch(part.strip())
        plain = _SIZE.fullmatch(part.strip())
        if "=" in text and named is not None:
            pairs.append((named[1], int(named[2])))
        elif "=" not in text and plain is not None and number < len(NAMES):
            pairs.append((NAMES[number], int(plain[0])))
        else:
            raise InputError(
                f"expected a mesh of at most {len(NAMES)} axes such as 4x2 or data=4,model=2, "
                f"found {text!r}"
            )
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise InputError(f"mesh {text}: two axes of one name; give each its own")
    if len(names) > len(NAMES):
        raise InputError(f"mesh {text}: {len(names)} axes; give at most {len(NAMES)}")
    kept = [(name, size) for name, size in pairs if size != 1]
    count = math.prod([size for _, size in kept])
    if not 2 <= count <= MOST_DEVICES:
        raise InputError(
            f"mesh {text}: a division is over 2 to {MOST_DEVICES:,} devices, found {count:,}"
        )
    return SearchMesh(tuple([name for name, _ in kept]), tuple([size for _, size in kept]))
