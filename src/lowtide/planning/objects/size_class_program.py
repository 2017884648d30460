"""The linear program of object sizes, with some of the choices that tensors have.

For each size there is a flow through time: as many units as there are objects of that size. A unit
passes through the tensors that choose the size, or waits. Each tensor is passed once in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.planning.objects.size_classes import SizeClasses
from lowtide.planning.problem import Int64Array

Choices = Mapping[int, npt.NDArray[np.bool_]]
"""For each size whether each tensor may choose it."""


class SizeClassProgram:
    """The program for given choices, in which every tensor has to have one.

    Costs are in units of the largest size, so that all numbers of the program are near 1.
    """

    def __init__(self, problem: SizeClasses, choices: Choices, work: float) -> None:
        """Build the program; a solution may take `work` seconds of a machine, always the same."""
        from ortools.linear_solver import pywraplp

        self._problem = problem
        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString(f"max_deterministic_time:{work}")
        self._optimal = pywraplp.Solver.OPTIMAL
        self._infinity = self._solver.infinity()
        self._most = int(problem.sizes.max())
        self._once = [self._solver.Constraint(1, self._infinity) for _ in problem.size]
        for size, may in choices.items():
            self._add(size, np.flatnonzero(may))

    def _add(self, size: int, members: Int64Array) -> None:
        problem = self._problem
        enters, leaves, count = crossed(problem.first[members], problem.last[members])
        rows = [self._solver.Constraint(0, 0) for _ in range(count)]
        rows[0].SetCoefficient(self._variable(size / self._most), -1)
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            waits = self._variable(0)
            row.SetCoefficient(waits, 1)
            if following is not None:
                following.SetCoefficient(waits, -1)
        spans = zip(members.tolist(), enters.tolist(), leaves.tolist(), strict=True)
        for member, enter, leave in spans:
            share = self._variable(0)
            self._once[member].SetCoefficient(share, 1)
            rows[enter].SetCoefficient(share, 1)
            if leave < count:
                rows[leave].SetCoefficient(share, -1)

    def _variable(self, cost: float) -> Any:
        variable = self._solver.NumVar(0, self._infinity, "")
        if cost:
            self._solver.Objective().SetCoefficient(variable, cost)
        return variable

    def solve(self) -> npt.NDArray[np.float64] | None:
        """Return the best price of each tensor, in units, None where the solver was stopped."""
        if self._solver.Solve() != self._optimal:
            return None
        return np.array([row.dual_value() for row in self._once]) * self._most

    def stop(self) -> None:
        """End a solution that is under way in another thread."""
        self._solver.InterruptSolve()


def crossed(first: Int64Array, last: Int64Array) -> tuple[Int64Array, Int64Array, int]:
    """Return for stretches of time which of the fullest moments they cover, and how many there are.

    A moment counts where no other one has all that live then, and more: after a beginning, before
    the next one, if something ends in between. Of each stretch the first moment is returned and the
    one after its last.
    """
    begins = np.unique(first)
    ends = np.sort(last)
    following = np.append(begins[1:], np.iinfo(np.int64).max)
    fullest = begins[np.searchsorted(ends, begins) < np.searchsorted(ends, following)]
    return (
        np.searchsorted(fullest, first),
        np.searchsorted(fullest, last, side="right"),
        len(fullest),
    )
