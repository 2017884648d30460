"""The loops of a kernel of reductions: which dimensions are one, and which has the vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.cost import vectors_abreast, widest
from lowtide.codegen.cpu.order import PAIR, are_pairs, may_pair
from lowtide.codegen.cpu.reduction.form import ReductionForm, visit
from lowtide.codegen.domain import trial_of, whole
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.reducers import monoid_of
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.space import LoopSpace, groups_of
from lowtide.llvm.target import Target
from lowtide.ops.symmetry import is_symmetric
from lowtide.records import dataclass

TOTALS: Final = 4
"""Totals that take turns along a row, as many as hide the time that an addition takes."""

_GATHER: Final = 10.0
"""Cost of a vector that is gathered, in those of a vector that is loaded."""

_SHUFFLE: Final = 1.5
"""The same of a vector of elements two apart, for each of the two; no more than a gather."""

_FAR: Final = 1 << 10
"""Elements between those of a vector that may lie anywhere."""

_FOLD: Final = 8.0
"""The same of combining the lanes of a vector."""

_FOLD_TOGETHER: Final = 3.0
"""The same where as many rows as there are lanes are combined at once."""


@dataclass(frozen=True, eq=False, slots=True)
class ReductionGrid:
    """Loops over the points of a form.

    `space` has the groups of dimensions, those of rows first; `rows` and `inner` are their numbers
    in the order of the loops, the one along which vectors run (`lane`) at the end of either.
    `lanes` are those of `abreast` vectors, pairs of elements of bf16 where it `is_paired`.
    """

    form: ReductionForm
    space: LoopSpace
    rows: tuple[int, ...]
    inner: tuple[int, ...]
    lane: int
    lanes: int
    abreast: int = 1
    is_paired: bool = False

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """The number of rows along each loop over rows."""
        return tuple([self.space.sizes[x] for x in self.rows])

    @property
    def inner_sizes(self) -> tuple[int, ...]:
        """The number of points along each loop along a row."""
        return tuple([self.space.sizes[x] for x in self.inner])

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return prod(self.row_sizes)

    @property
    def row_length(self) -> int:
        """The number of points of a row."""
        return prod(self.inner_sizes)

    @property
    def is_across(self) -> bool:
        """Whether the lanes of a vector belong to different rows."""
        return self.lane in self.rows

    def index(
        self, elements: Elements, rows: Sequence[Affine], inner: Sequence[Affine]
    ) -> tuple[Index, Index]:
        """Return the position of a row, and that along it, from those in the loops."""
        numbers = dict(zip((*self.rows, *self.inner), (*rows, *inner), strict=True))
        found = self.space.index(elements, [numbers[x] for x in sorted(numbers)])
        count = len(self.form.rows)
        return found[:count], found[count:]

    def row_index(self, elements: Elements, rows: Sequence[Affine]) -> Index:
        """Return the position of a row from those in the loops."""
        count = len(self.rows)
        part = LoopSpace(self.form.rows, self.space.groups[:count])
        if not count:
            return ()
        numbers = dict(zip(self.rows, rows, strict=True))
        return part.index(elements, [numbers[x] for x in sorted(numbers)])


def grid_of(form: ReductionForm, target: Target) -> ReductionGrid | None:
    """Return the loops for a form; None where a reduction is read at other rows than its own."""
    dimensions = (*form.rows, *form.inner)
    trials: list[tuple[Elements, Index]] = []
    regular: list[bool] = []

    def noted(elements: Elements, index: Index) -> None:
        trials.append((elements, index))
        regular.append(visit(form, elements, index))

    trial = trial_of(whole(dimensions, range(len(dimensions))), target, noted)
    if not all(regular):
        return None
    border = len(form.rows)
    groups: list[tuple[int, int]] = []
    for first, end in groups_of(trial, dimensions):
        cuts = [first, border, end] if first < border < end else [first, end]
        groups += pairwise(cuts)
    space = LoopSpace(dimensions, tuple(groups))
    rows = tuple([i for i, (first, _) in enumerate(groups) if first < border])
    inner = tuple(range(len(rows), len(groups)))
    lane = _best_lane(form, space, rows, trials[0], target)
    lanes = _lanes(form, space.sizes[lane], target, across=lane in rows)
    found = ReductionGrid(form, space, _last(rows, lane), _last(inner, lane), lane, lanes)
    if found.is_across or not form.last_pass:
        return found
    return _abreast(found, trials[0], target)


def total_count(grid: ReductionGrid) -> int:
    """Return how many totals take turns along a row."""
    if not grid.lanes or grid.is_across:
        return 1
    size = grid.inner_sizes[-1]
    whole = size // grid.lanes if not all_monoids(grid.form) else -(-size // grid.lanes)
    return max(1, min(TOTALS // grid.abreast, whole))


def _abreast(grid: ReductionGrid, trial: tuple[Elements, Index], target: Target) -> ReductionGrid:
    """The grid with vectors that take turns computed side by side: those that lie so."""
    elements, index = trial
    (variable, _) = index[grid.space.groups[grid.lane][1] - 1].terms[0]
    steps = [(array, dict(place.terms).get(variable, 0)) for array, place in elements.reads]
    is_smooth = all(x in (0, 1) for _, x in steps) and all_monoids(grid.form)
    if not is_smooth or grid.inner_sizes[-1] % (TOTALS * grid.lanes):
        return grid
    inner = members(grid.form.instruction)
    abreast = vectors_abreast(target, inner)
    is_paired = may_pair(target, inner) and are_pairs(steps)
    if is_paired:
        abreast = max(abreast, PAIR)
    return replace(grid, lanes=abreast * grid.lanes, abreast=abreast, is_paired=is_paired)


def _last(groups: tuple[int, ...], lane: int) -> tuple[int, ...]:
    return tuple(sorted(groups, key=lambda x: x == lane))


def _most_lanes(form: ReductionForm, target: Target) -> int:
    return max(target.vector_bytes // widest(members(form.instruction)), 2)


def _lanes(form: ReductionForm, size: int, target: Target, *, across: bool) -> int:
    """The length of vectors; no longer than a row where lanes have to begin with elements of it.

    Lanes along a row take its points out of their order.
    """
    if not across and keeps_order(form):
        return 1
    most = _most_lanes(form, target)
    lanes = 1
    while lanes < min(most, size):
        lanes *= 2
    if not across and lanes > size and not all_monoids(form):
        lanes //= 2
    return lanes


def all_monoids(form: ReductionForm) -> bool:
    """Whether each reduction has a neutral element."""
    return all(monoid_of(x.called_computations[0]) is not None for x in form.heroes)


def keeps_order(form: ReductionForm) -> bool:
    """Whether points of a row have to be combined in their order, neighbours with neighbours."""
    return not all(is_symmetric(x.called_computations[0]) for x in form.heroes)


def _best_lane(
    form: ReductionForm,
    space: LoopSpace,
    rows: Sequence[int],
    trial: tuple[Elements, Index],
    target: Target,
) -> int:
    """The group along which vectors cost least, the last of those that cost the same.

    Rows that keep their order have vectors across them, or none.
    """
    is_ordered = keeps_order(form)
    if is_ordered and not rows:
        return len(space.groups) - 1
    elements, index = trial
    most = _most_lanes(form, target)
    reads = list(dict.fromkeys(elements.reads))
    costs = []
    for number, (_, end) in enumerate(space.groups):
        if is_ordered and number not in rows:
            continue
        size = space.sizes[number]
        innermost = end - 1 if number not in rows else len(index) - 1
        cost = -(-size // most) * _moves(reads, index, end - 1, innermost)
        if number not in rows:
            cost += (_FOLD_TOGETHER if _folds_together(form, rows) else _FOLD) * len(form.heroes)
        costs.append((cost / size, -number))
    return -min(costs)[1]


def _folds_together(form: ReductionForm, rows: Sequence[int]) -> bool:
    return bool(rows) and not form.last_pass and not any(x.is_full for x in form.results)


def _moves(
    reads: Sequence[tuple[Array, Affine]], index: Index, dimension: int, innermost: int
) -> float:
    """The cost of all reads and writes of a point, as vectors along a dimension.

    What does not change in the innermost loop is read ahead of it.
    """
    (variable, _) = index[dimension].terms[0]
    (last, _) = index[innermost].terms[0]
    total = 1.0
    for _, place in reads:
        factors = dict(place.terms)
        step = factors.get(variable, 0)
        weight = 1.0 if last in factors else 0.1
        if any(x.vector for x in factors):
            step = _FAR
        total += weight * (1.0 if step in (0, 1) else min(_SHUFFLE * abs(step), _GATHER))
    return total
