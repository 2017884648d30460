"""The best packing so far, part by part of time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, final

import numpy as np

from lowtide.planning.plans import Packing
from lowtide.planning.problem import ARENA, FREE, Int64Array, PackingProblem, max_live
from lowtide.planning.scale.orders import parts_of
from lowtide.search.effort import SearchOptions, StopReason

UNKNOWN: Final = 2**62
"""The height of a part that has no packing yet."""


class LateError(Exception):
    """The deadline is over, and there is a packing."""


class Incumbent:
    """The lowest packing found of each part of a problem, whose steps are numbered from 0.

    A part is open while it is higher than `target`: the most bytes live in the problem, or the
    capacity that is asked for.
    """

    def __init__(self, problem: PackingProblem, options: SearchOptions) -> None:
        self.problem = problem
        self.bound = max_live(problem)
        self.target = max(self.bound, options.capacity or 0)
        self._part = parts_of(problem)
        self._height = np.full(int(self._part.max(initial=-1)) + 1, UNKNOWN)
        self._region = problem.region_of.copy()
        self._offset = np.where(problem.fixed_offset == FREE, 0, problem.fixed_offset)
        self._progress: Callable[[int, int], None] | None = options.progress
        self._deadline = options.begun()

    def go_on(self, options: SearchOptions) -> None:
        """Take other limits, of the same capacity."""
        self._progress, self._deadline = options.progress, options.begun()

    @property
    def height(self) -> int:
        """The arena so far, `UNKNOWN` where some part has no packing yet."""
        return int(self._height.max(initial=0))

    @property
    def open_parts(self) -> int:
        """The number of parts that are higher than the target."""
        return int((self._height > self.target).sum())

    def open_buffers(self) -> Int64Array:
        """The buffers of the parts that are higher than the target."""
        return np.flatnonzero(self._height[self._part] > self.target)

    def offer(self, buffers: Int64Array, packing: Packing) -> None:
        """Take a packing of some buffers, all of their parts, where it is lower."""
        part = self._part[buffers]
        top = np.where(packing.region == ARENA, packing.offset + self.problem.nbytes[buffers], 0)
        height = np.full(len(self._height), UNKNOWN)
        height[part] = 0
        np.maximum.at(height, part, top)
        before = self.height
        better = height < self._height
        self._height[better] = height[better]
        taken = better[part]
        self._region[buffers[taken]] = packing.region[taken]
        self._offset[buffers[taken]] = packing.offset[taken]
        if self._progress is not None and self.height < before:
            self._progress(self.height, self.bound)

    def prove(self, bound: int) -> None:
        """Take a bound below which there is no packing."""
        self.bound = max(self.bound, bound)
        self.target = max(self.target, self.bound)
        if self._progress is not None:
            self._progress(self.height, self.bound)

    def check(self) -> None:
        """Raise LateError where the deadline is over and there is a packing."""
        if self.height < UNKNOWN and self._deadline.passed:
            raise LateError

    def packing(self, stopped: StopReason) -> Packing:
        """Return the packing."""
        return Packing(self._region, self._offset, self.height, self.bound, stopped=stopped)


@final
class BegunProblems:
    """Problems of which the quick half was tried, and its work: plans often ask for the rest next.

    What is taken goes to one caller, so that threads do not share a packing.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[Hashable, tuple[Incumbent, int]] = OrderedDict()

    def keep(self, key: Hashable, incumbent: Incumbent, work: int) -> None:
        """Remember what was found of a problem, and forget the oldest where that is too many."""
        self._found[key] = incumbent, work
        if len(self._found) > self._most:
            self._found.popitem(last=False)

    def take(self, key: Hashable) -> tuple[Incumbent, int] | None:
        """Return what was found of a problem, None where nothing is remembered."""
        return self._found.pop(key, None)


BEGUN: Final = BegunProblems(4)
