"""Propagation: from the tilings that a module asks for to one of every array.

Relations work forward and backward, in rounds: first what works element by element, then factors
that pass through any operation, then reduced ones, and last the new dimensions of broadcasts.
Nothing that is known is taken back; where arrays disagree about a factor, the largest wins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from lowtide.ir import Opcode
from lowtide.ir.tilings.tiling import Tiling
from lowtide.ops.table import TABLE
from lowtide.spmd.cells import ArrayCell, ArrayCells, Relation
from lowtide.spmd.factor_axes import axes_of, tiling_of

_MOVING: Final = frozenset({Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.COPY})
_SPREADING: Final = frozenset({Opcode.BROADCAST})
_ROUNDS: Final = 4


def propagate(cells: ArrayCells) -> None:
    """Give every cell the tiling that follows from those asked for."""
    readers: dict[int, list[int]] = {}
    for number, relation in enumerate(cells.relations):
        for cell in dict.fromkeys(relation.numbers):
            readers.setdefault(cell, []).append(number)
    for step in range(_ROUNDS):
        dirty = {i for i, r in enumerate(cells.relations) if _starts(r) <= step}
        active = set(dirty)
        forward = True
        while dirty:
            order = sorted(dirty, reverse=not forward)
            forward = not forward
            dirty = set()
            for number in order:
                for cell in _relate(cells, cells.relations[number], step):
                    dirty.update([r for r in readers[cell] if r in active])


def _starts(relation: Relation) -> int:
    """Return the first round in which a relation works."""
    if TABLE[relation.opcode].elementwise or relation.opcode in _MOVING:
        return 0
    return 1


def _relate(cells: ArrayCells, relation: Relation, step: int) -> list[int]:
    """Make the arrays of one relation agree as far as they can; return the cells that change.

    What equal relations between equal tilings came to is done again as it was.
    """
    if relation.kind is None:
        return [number for number, _ in _extended(cells, relation, step)]
    own = [cells.cells[number] for number in relation.numbers]
    tilings = tuple([cell.tiling for cell in own])
    key = relation.kind, step, tilings, tuple([cell.is_open for cell in own])
    known = cells.memo.splits.extensions(key)
    if known is None:
        found = _extended(cells, relation, step)
        places = [relation.numbers.index(number) for number, _ in found]
        pairs = zip(places, found, strict=True)
        extensions = tuple([(place, tiling) for place, (_, tiling) in pairs])
        cells.memo.splits.keep_extensions(key, extensions)
        return [number for number, _ in found]
    for place, tiling in known:
        own[place].tiling = tiling
        own[place].why = f"follows %{relation.where}"
    return [relation.numbers[place] for place, _ in known]


def _extended(cells: ArrayCells, relation: Relation, step: int) -> list[tuple[int, Tiling]]:
    """Split the cells of one relation further; return those that change, with their tilings."""
    rule, grid = relation.rule, cells.grid
    numbers = relation.numbers
    factors = rule.arrays
    found = [
        axes_of(rule, grid, one, cells.cells[number].tiling)
        for number, one in zip(numbers, factors, strict=True)
    ]
    if not any(found):
        return []
    best = _agreed(cells, relation, found, step)
    changed = []
    is_backward = relation.opcode in _SPREADING and step < _ROUNDS - 1
    for place, number in enumerate(numbers):
        if is_backward and place >= relation.operand_count:
            continue
        own = found[place]
        longer = {
            factor: axes
            for factor in {f for dimension in factors[place] for f in dimension}
            if (axes := best.get(factor, ())) != (have := own.get(factor, ()))
            and axes[: len(have)] == have
        }
        if not longer:
            continue
        wanted = tiling_of(rule, grid, factors[place], {**own, **longer})
        if _extend(cells, cells.cells[number], wanted, relation.where):
            changed.append((number, cells.cells[number].tiling))
    return changed


def _agreed(
    cells: ArrayCells, relation: Relation, found: list[Mapping[int, tuple[int, ...]]], step: int
) -> dict[int, tuple[int, ...]]:
    """Return the axes of each factor: of the largest array that has some, as long as others agree.

    An axis that two factors want is left to the one whose array is larger.
    """
    numbers = relation.numbers
    sizes = [math.prod(cells.cells[number].shape.dimensions) for number in numbers]
    order = sorted(range(len(numbers)), key=lambda i: -sizes[i])
    late = relation.rule.summed
    best: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for place in order:
        for factor, axes in found[place].items():
            if factor in late and step < 2:
                continue
            have = best.get(factor, ())
            if axes[: len(have)] == have and not taken.intersection(axes[len(have) :]):
                best[factor] = axes
                taken.update(axes)
    return best


def _extend(cells: ArrayCells, cell: ArrayCell, wanted: Tiling, where: str) -> bool:
    """Split a cell further, where it is open and its axes are free; return whether that was so."""
    grid = cells.grid
    axes = list(cell.tiling.axes)
    used = set(cell.tiling.used)
    changed = False
    for dimension, more in enumerate(wanted.axes):
        own = axes[dimension]
        if not cell.is_open[dimension] or more[: len(own)] != own:
            continue
        size = cell.shape.dimensions[dimension]
        for axis in more[len(own) :]:
            longer = (*axes[dimension], axis)
            if axis in used or size % grid.extent(longer):
                break
            axes[dimension] = longer
            used.add(axis)
            changed = True
    if changed:
        cell.tiling = Tiling(tuple(axes))
        cell.why = f"follows %{where}"
    return changed
