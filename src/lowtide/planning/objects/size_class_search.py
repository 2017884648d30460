"""The search for the best sizes of objects, among those that prices leave.

A pair of an object's size and a tensor is left out where it costs too much: by the prices, so much
more than the tensors of the object that no plan below the target has room for it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.planning.objects.prices import Prices, slack
from lowtide.planning.objects.size_class_program import crossed
from lowtide.planning.objects.size_classes import SizeClasses, most_at_once
from lowtide.planning.problem import Int64Array
from lowtide.records import dataclass

SEED: Final = 1


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Seconds of a machine that is always the same, and how large a model may be.

    `literals` is the number of occurrences of variables; a larger model is not searched.
    """

    work: float
    literals: int


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """The finding of a search: chosen sizes per tensor, None where there is nothing.

    `bound` is the units that were proved to be needed, at most one above the target.
    """

    chosen: Int64Array | None
    bound: int


class SizeClassSearch:
    """A model of all plans of at most `target` units, for the CP-SAT solver of OR-tools."""

    def __init__(
        self, problem: SizeClasses, prices: Prices, target: int, limits: SearchLimits
    ) -> None:
        """Build the model, as far as the limits allow."""
        from ortools.sat.python import cp_model

        self._problem = problem
        self._target = target
        self._floor = prices.bound
        self._model = cp_model.CpModel()
        self._solver = cp_model.CpSolver()
        self._solver.parameters.num_workers = 1
        self._solver.parameters.random_seed = SEED
        self._solver.parameters.catch_sigint_signal = False
        self._solver.parameters.max_deterministic_time = limits.work
        self._feasible = (cp_model.OPTIMAL, cp_model.FEASIBLE)
        self._infeasible = cp_model.INFEASIBLE
        self._choices: list[dict[int, Any]] = [{} for _ in problem.size]
        self._literals = 0
        self._most_literals = limits.literals
        self._build(prices)

    @property
    def small_enough(self) -> bool:
        """Whether the whole model was built."""
        return self._literals <= self._most_literals

    def _build(self, prices: Prices) -> None:
        problem, model = self._problem, self._model
        spare = self._target * prices.denominator - int(prices.price.sum())
        cost: list[Any] = []
        for size in problem.sizes.tolist():
            allowed = (problem.size <= size) & (slack(problem, prices, size) <= spare)
            members = np.flatnonzero(allowed)
            if not len(members):
                continue
            first, last = problem.first[members], problem.last[members]
            count = model.new_int_var(0, most_at_once(first, last), "")
            cost.append(size * count)
            enters, leaves, moments = crossed(first, last)
            self._literals += int((leaves - enters).sum())
            if not self.small_enough:
                return
            self._add_size(size, members, enters, leaves, moments, count)
        for choices in self._choices:
            model.add_exactly_one(choices.values())
        model.add(sum(cost) >= self._floor)
        model.add(sum(cost) <= self._target)
        model.minimize(sum(cost))

    def _add_size(
        self,
        size: int,
        members: Int64Array,
        enters: Int64Array,
        leaves: Int64Array,
        moments: int,
        count: Any,
    ) -> None:
        """Have as many objects of the size as tensors that choose it live at any moment."""
        live: list[list[Any]] = [[] for _ in range(moments)]
        spans = zip(members.tolist(), enters.tolist(), leaves.tolist(), strict=True)
        for member, enter, leave in spans:
            choice = self._model.new_bool_var("")
            self._choices[member][size] = choice
            for moment in range(enter, leave):
                live[moment].append(choice)
        for choices in live:
            self._model.add(sum(choices) <= count)

    def solve(self) -> Found:
        """Return the best sizes at or below the target, and the bound, once a limit is reached."""
        status = self._solver.solve(self._model)
        if status == self._infeasible:
            return Found(None, self._target + 1)
        if status not in self._feasible:
            return Found(None, self._floor)
        sizes = [
            next(size for size, choice in choices.items() if self._solver.boolean_value(choice))
            for choices in self._choices
        ]
        bound = max(self._floor, round(self._solver.best_objective_bound))
        return Found(np.array(sizes, np.int64), bound)

    def stop(self) -> None:
        """End a search that is under way in another thread."""
        self._solver.stop_search()
