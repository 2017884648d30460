"""Storing what is made of reductions: for each row, and for each point of the space."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.codegen.cpu.reduction.form import ReductionForm
from lowtide.codegen.cpu.reduction.grid import ReductionGrid
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.indexing import Affine, Index


def store_rows(
    grid: ReductionGrid, elements: Elements, bound: Bound, rows: Sequence[Affine], mask: Mask | None
) -> None:
    """Compute and store the results that have one element for each row."""
    results = [x for x in grid.form.results if not x.is_full]
    row = grid.row_index(elements, rows)
    found = []
    for result in results:
        at = grid.form.place(result, row, ())
        element = elements.all_at(result.source, at, bound.frame, mask)
        found.append((result, at, element.values[result.component]))
    for result, at, value in found:
        elements.store(bound.results[result.array], at, value, mask)


def store_points(
    form: ReductionForm,
    elements: Elements,
    bound: Bound,
    points: Sequence[Index],
    mask: Mask | None,
) -> None:
    """Compute the results that have an element for each point, then store them."""
    results = [x for x in form.results if x.is_full]
    values = [[elements.at(x.source, p, bound.frame, mask) for x in results] for p in points]
    for point, found in zip(points, values, strict=True):
        for result, value in zip(results, found, strict=True):
            elements.store(bound.results[result.array], point, value, mask)
