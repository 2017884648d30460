"""Arrays for the results: copied, written in place, or made by moving the arena's pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from lowtide.ir.buffer import AllocationKind
from lowtide.ir.literal import DTYPES, Array
from lowtide.records import dataclass
from lowtide.runtime.cpu.arguments import is_row_major, major_to_minor, physical_sizes
from lowtide.runtime.cpu.entry import Fill
from lowtide.runtime.cpu.program import Interface, ProgramResult

PLACED_BYTES: Final = 128 << 10
"""From here on a result that is an allocation of its own is written where it stays."""

MOVED_BYTES: Final = 1 << 20
"""From here on moving pages takes less time than copying."""

COPIED_BYTES: Final = 2 << 20
"""How many bytes of results may be copied at all, and so be there twice; beyond that the pages of
results of `LEAST_MOVED` bytes are moved."""

LEAST_MOVED: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Made:
    """How one result is made.

    `fill` is what native code does with a new array of `sizes` and `dtype`. With NONE there is no
    new array: the result is the argument `consumed`, or, where that is -1, the pages of the arena.
    `turned` are the axes by which the array is turned to the order of its shape, None for none.
    """

    fill: Fill
    allocation: int
    offset: int
    nbytes: int
    sizes: tuple[int, ...]
    dtype: np.dtype[Any]
    turned: tuple[int, ...] | None
    consumed: int = -1

    @property
    def moved(self) -> bool:
        """Whether the result is made of the arena's pages."""
        return self.fill is Fill.NONE and self.consumed < 0

    @property
    def is_placed(self) -> bool:
        """Whether it is written into an array that begins with a line of a cache."""
        return self.fill is Fill.PLACE and self.nbytes >= PLACED_BYTES

    @property
    def words(self) -> tuple[int, int, int, int]:
        """What native code reads of it."""
        return self.fill.value, self.allocation, self.offset, self.nbytes

    def finished(self, array: Array) -> Array:
        """Return an array in the order of memory as one of the result's shape."""
        return array if self.turned is None else array.transpose(self.turned)


def made_results(interface: Interface, *, nothing: int, consume: bool) -> tuple[Made, ...]:
    """Return how each result is made; `nothing` is the allocation of what has no bytes."""
    whole = whole_allocations(interface)
    moved = _moved(interface.results)
    made = []
    for number, result in enumerate(interface.results):
        shape, place = result.shape, result.place
        fill, consumed = Fill.COPY, -1
        if place.allocation >= 0:
            memory = interface.memories[place.allocation]
            if number in whole:
                fill = Fill.PLACE if memory.kind is AllocationKind.OUTPUT else Fill.RENEW
                if fill is Fill.RENEW and consume:
                    fill, consumed = Fill.NONE, memory.argument
            elif memory.kind is AllocationKind.ARENA and number in moved:
                fill = Fill.NONE
        order = major_to_minor(shape)
        turned = None if is_row_major(shape) else tuple([order.index(x) for x in range(len(order))])
        made.append(
            Made(
                fill,
                place.allocation if place.allocation >= 0 else nothing,
                place.offset,
                place.nbytes,
                physical_sizes(shape),
                DTYPES[shape.element_type],
                turned,
                consumed,
            )
        )
    return tuple(made)


def counts_of_sizes(made: Sequence[Made]) -> dict[int, int]:
    """Return how many results with pages of their own there are, by bytes."""
    return dict(Counter([x.nbytes for x in made if x.moved or x.is_placed]))


def whole_allocations(interface: Interface) -> set[int]:
    """Return the results that are each all of an allocation which is theirs."""
    found, taken = set(), set()
    for number, result in enumerate(interface.results):
        place = result.place
        if place.allocation < 0 or place.allocation in taken:
            continue
        memory = interface.memories[place.allocation]
        own = memory.kind is AllocationKind.OUTPUT or memory.result == number
        if own and place.offset == 0 and place.nbytes == memory.nbytes:
            found.add(number)
            taken.add(place.allocation)
    return found


def _moved(results: Sequence[ProgramResult]) -> set[int]:
    """The results, of those that lie in an arena, whose pages are moved: the large ones."""
    found, copied = set(), 0
    for number in sorted(_lying_alone(results), key=lambda x: results[x].place.nbytes):
        nbytes = results[number].place.nbytes
        copied += nbytes
        if nbytes >= MOVED_BYTES or (copied > COPIED_BYTES and nbytes >= LEAST_MOVED):
            found.add(number)
    return found


def _lying_alone(results: Sequence[ProgramResult]) -> list[int]:
    """The results that share no byte with another one."""
    found = []
    order = sorted(
        [(x.place.allocation, x.place.offset, n) for n, x in enumerate(results) if x.place.nbytes]
    )
    ends: dict[int, int] = {}
    for position, (allocation, offset, number) in enumerate(order):
        end = offset + results[number].place.nbytes
        free = ends.get(allocation, 0) <= offset
        ends[allocation] = max(end, ends.get(allocation, 0))
        following = order[position + 1] if position + 1 < len(order) else None
        if following is not None and following[0] == allocation and following[1] < end:
            free = False
        if free:
            found.append(number)
    return found


def reshaped(array: Array, made: Made) -> Array:
    """Return a contiguous array's memory as one of a result's type and sizes, slowest first."""
    if array.dtype == made.dtype and array.shape == made.sizes:
        return array
    return array.reshape(-1).view(np.uint8).view(made.dtype).reshape(made.sizes)
