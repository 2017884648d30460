"""The elements of an array as boxes, and their dimensions in factors: loops without conditions.

An array made of several (concatenate, pad) is cut at their borders. Within a box it is then known
which of them an element comes from. Where elements are numbered anew (reshape), a dimension is
split in two, so that what would be a quotient is a loop of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import gcd, prod
from typing import Final, TypeAlias

from lowtide.codegen import indexing
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.indexing import Affine, Index, Variable
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass

MOST_BOXES: Final = 8
"""Boxes that an array is cut into, at most: each has code of its own."""

_MOST_LINES: Final = 4000
"""Lines of code of all boxes, about."""

SHORTEST: Final = 32
"""Elements of a piece along the innermost loop that is worth a box."""

_SCALARS: Final = 4
"""So few elements are cut at each border: they stay in registers, one by one, where lanes of a
vector would be chosen by masks and put together again."""

_MOST_TOGETHER: Final = 4
"""Boxes that are gone through together, at most."""

_LINES_TOGETHER: Final = 400
"""Lines of code of a point of all of them, at most: registers have to hold what is loaded."""

_FEWEST_SPREAD: Final = 5
_MOST_SPREAD: Final = 32
"""Positions of a loop that are gone through together: pieces of fewer cost a loop only masks."""

_LINES_SPREAD: Final = 1500
"""Lines of code of all of them, at most."""

_LINES_SAVED: Final = 144
"""Lines that a position takes less, at least: as long as to store the lanes of a vector apart."""

_ROUNDS: Final = 12
"""How often loops are split, at most."""

Visit = Callable[[Elements, Index], None]


@dataclass(frozen=True, slots=True)
class LoopAxis:
    """A loop of `size` steps from `low` on; each adds `step` to the index along `dimension`."""

    dimension: int
    step: int
    low: int
    size: int


@dataclass(frozen=True, slots=True)
class LoopDomain:
    """A box of an array of `dimensions`, by its loops, outermost first.

    Boxes of the same sizes may be gone through together: `others` has where their loops begin.
    """

    dimensions: tuple[int, ...]
    axes: tuple[LoopAxis, ...]
    others: tuple[tuple[int, ...], ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of steps of each loop."""
        return tuple([x.size for x in self.axes])

    @property
    def lows(self) -> tuple[int, ...]:
        """Where each loop begins."""
        return tuple([x.low for x in self.axes])

    def index(self, positions: Sequence[Affine]) -> Index:
        """Return the index in the array at a position along each loop."""
        return self._index(positions, self.lows)

    def indices(self, positions: Sequence[Affine]) -> list[Index]:
        """Return the indices in all boxes at a position along each loop."""
        return [self._index(positions, x) for x in (self.lows, *self.others)]

    def _index(self, positions: Sequence[Affine], lows: Sequence[int]) -> Index:
        found = [indexing.ZERO] * len(self.dimensions)
        for axis, position, low in zip(self.axes, positions, lows, strict=True):
            moved = position + low
            found[axis.dimension] = found[axis.dimension] + moved * axis.step
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Trial:
    """What is done at an index of a domain, of which nothing is kept but notes.

    `variables` are the positions along the loops, None where a loop has one step. The level of the
    first one is 1.
    """

    elements: Elements
    variables: tuple[Variable | None, ...]

    @property
    def lines(self) -> int:
        """The lines of code that a point takes, without vectors."""
        return len(self.elements.function.lines)

    @property
    def loads(self) -> int:
        """The elements that a point reads."""
        return len(set(self.elements.reads) - set(self.elements.writes))


Box: TypeAlias = tuple[LoopDomain, Trial]
"""A domain, and what was tried in it."""


def whole(dimensions: tuple[int, ...], order: Sequence[int]) -> LoopDomain:
    """Return all of an array, with loops over its dimensions in an order."""
    return LoopDomain(dimensions, tuple([LoopAxis(d, 1, 0, dimensions[d]) for d in order]))


def trial_of(domain: LoopDomain, target: Target, visit: Visit) -> Trial:
    """Return notes of what `visit` does at an index of each box of a domain."""
    elements = scalar_elements(Function("trial"), target)
    positions = []
    with ExitStack() as loops:
        for size in domain.sizes:
            loop = loops.enter_context(elements.scopes.loop(0, "%size"))
            positions.append(elements.indices.variable(loop.index, size))
        for index in domain.indices(positions):
            visit(elements, index)
    return Trial(elements, tuple([x.terms[0][0] if x.terms else None for x in positions]))


def domains_of(
    dimensions: tuple[int, ...], order: Sequence[int], target: Target, visit: Visit
) -> list[Box]:
    """Return boxes that are the whole of an array, each with a trial.

    `order` has the dimensions for the loops, outermost first. There are no boxes where there are no
    elements.
    """
    if 0 in dimensions:
        return []
    waiting = [whole(dimensions, order)]
    found: list[Box] = []
    while waiting:
        domain, trial = _refined(waiting.pop(0), target, visit)
        cuts = _cuts(domain, trial)
        room = min(MOST_BOXES, _MOST_LINES // max(trial.lines, 1)) - len(waiting) - len(found)
        cut = next((x for x in cuts if len(x[1]) < room), None)
        if cut is None:
            found.append(_spread(domain, trial, target, visit))
        else:
            waiting = [*_pieces(domain, *cut), *waiting]
    return found


def alike(found: Sequence[Box]) -> list[list[Box]]:
    """Return boxes in groups of the same sizes."""
    groups: dict[tuple[LoopAxis, ...], list[Box]] = {}
    for box in found:
        groups.setdefault(tuple([replace(x, low=0) for x in box[0].axes]), []).append(box)
    return list(groups.values())


def together(boxes: Sequence[Box], target: Target, visit: Visit) -> Box | None:
    """Return boxes of the same sizes as one domain, None where they read too little in common.

    It is worth it where a third of the loads falls away.
    """
    if not 1 < len(boxes) <= _MOST_TOGETHER or any(x.others for x, _ in boxes):
        return None
    first = boxes[0][0]
    domain = replace(first, others=tuple([x.lows for x, _ in boxes[1:]]))
    trial = trial_of(domain, target, visit)
    loads = sum([x.loads for _, x in boxes])
    is_shared = 3 * trial.loads <= 2 * loads and trial.lines <= _LINES_TOGETHER
    return (domain, trial) if is_shared and loads else None


# -- factors -----------------------------------------------------------------------------------


def _refined(domain: LoopDomain, target: Target, visit: Visit) -> tuple[LoopDomain, Trial]:
    trial = trial_of(domain, target, visit)
    for _ in range(_ROUNDS):
        split = _split(trial)
        if split is None:
            break
        number, factor = split
        axis = domain.axes[number]
        outer = LoopAxis(axis.dimension, axis.step * factor, 0, axis.size // factor)
        inner = replace(axis, size=factor)
        axes = (*domain.axes[:number], outer, inner, *domain.axes[number + 1 :])
        domain = replace(domain, axes=axes)
        trial = trial_of(domain, target, visit)
    return domain, trial


def _split(trial: Trial) -> tuple[int, int] | None:
    """A loop, and the size of the inner one of two that make a quotient affine."""
    for index, divisor in trial.elements.indices.quotients:
        for variable, factor in index.terms:
            if variable not in trial.variables or factor % divisor == 0:
                continue
            size = divisor // gcd(abs(factor), divisor)
            if variable.extent % size or variable.extent == size:
                continue
            if _is_affine_then(index, divisor, variable, size):
                return trial.variables.index(variable), size
    return None


def _is_affine_then(index: Affine, divisor: int, split: Variable, size: int) -> bool:
    """Whether a loop split by `size` leaves remainders that are below the divisor for certain."""
    highest = index.constant % divisor
    for variable, factor in index.terms:
        if factor % divisor == 0:
            continue
        steps = (size if variable is split else variable.extent) - 1
        if factor < 0:
            return False
        highest += factor * steps
    return highest < divisor


# -- boxes -------------------------------------------------------------------------------------


def _cuts(domain: LoopDomain, trial: Trial) -> list[tuple[int, list[int]]]:
    """Loops that are worth cutting, with the positions where pieces begin, but the first."""
    found: dict[int, set[int]] = {}
    for index, low, high in trial.elements.indices.tests:
        for number, variable in enumerate(trial.variables):
            if variable is None or [x for x, _ in index.terms] != [variable]:
                continue
            factor = index.terms[0][1]
            places = _border(index, factor, low), _border(index, factor, high)
            inner = [x for x in places if 0 < x < variable.extent]
            found.setdefault(number, set()).update(inner)
    last = len(domain.axes) - 1
    is_small = prod(domain.sizes) <= _SCALARS
    cuts = []
    for number, borders_of in sorted(found.items()):
        borders = [0, *sorted(borders_of), domain.axes[number].size]
        pieces = [b - a for a, b in itertools.pairwise(borders)]
        if len(pieces) > 1 and (number < last or is_small or min(pieces) >= SHORTEST):
            cuts.append((number, borders[1:-1]))
    return cuts


def _spread(domain: LoopDomain, trial: Trial, target: Target, visit: Visit) -> Box:
    """Return a box without loops over short pieces, whose positions are gone through together.

    At each of them it is known which piece it belongs to, where a loop would compute all of them
    each time. That is worth it where positions read what all of them read anyway, pieces of one
    element and not rows cut in two, and where pieces take longer than to store each by itself.
    """
    for number in range(len(domain.axes) - 1, -1, -1):
        places = domain.axes[number].size * (1 + len(domain.others))
        if not _FEWEST_SPREAD <= places <= _MOST_SPREAD:
            continue
        if domain.axes[number].size > 2 * _pieces_along(trial, number):
            continue
        spread = _without_loop(domain, number)
        found = trial_of(spread, target, visit)
        if found.loads > 2 * trial.loads or found.lines > _LINES_SPREAD:
            continue
        if trial.lines - found.lines // places >= _LINES_SAVED:
            domain, trial = spread, found
    return domain, trial


def _pieces_along(trial: Trial, number: int) -> int:
    """Return about how many pieces there are along a loop, 0 where all of it is one."""
    variable = trial.variables[number]
    tests = dict.fromkeys(trial.elements.indices.tests)
    return sum([any(variable is x for x, _ in index.terms) for index, _, _ in tests])


def _without_loop(domain: LoopDomain, number: int) -> LoopDomain:
    """A domain whose positions along a loop are others that are gone through together."""
    axis = domain.axes[number]
    axes = (*domain.axes[:number], replace(axis, size=1), *domain.axes[number + 1 :])
    lows = [
        (*x[:number], x[number] + step, *x[number + 1 :])
        for x in (domain.lows, *domain.others)
        for step in range(axis.size)
    ]
    return replace(domain, axes=axes, others=tuple(lows[1:]))


def _border(index: Affine, factor: int, value: int) -> int:
    """The first position from which the index is on the other side of a value."""
    distance = value - index.constant
    return -(-distance // factor) if factor > 0 else -distance // -factor + 1


def _pieces(domain: LoopDomain, number: int, borders: Sequence[int]) -> list[LoopDomain]:
    axis = domain.axes[number]
    ends = [0, *borders, axis.size]
    pieces = [replace(axis, low=axis.low + a, size=b - a) for a, b in itertools.pairwise(ends)]
    return [
        replace(domain, axes=(*domain.axes[:number], piece, *domain.axes[number + 1 :]))
        for piece in pieces
    ]
