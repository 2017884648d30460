"""Shared objects that cannot be smaller together, with a proof.

An object costs the size of its largest tensor, so a plan is a cover of the tensors by sets that
never live together. The dual of that linear program gives each tensor a price, such that no set
costs less than the prices of its tensors. Then no plan costs less than all prices.

Sets need not be listed. Among tensors up to some size the heaviest set that never lives together is
found in one pass over time (weighted interval scheduling). The program itself is small as well,
since intervals are a perfect graph: see `size_classes.py`. Its optimum is nearly always that of
whole tensors. Where it is not, what the search proves beyond the prices leaves no evidence.

    1. the best of the greedy plans; done where it meets the positional maximums
    2. prices (`pricing.py`); done where the plan meets their sum, rounded up
    3. sizes for the tensors at a total of the bound, then above it, by constraint programming,
       among the choices that the prices leave (`size_class_search.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from lowtide.planning.objects.equality import naive
from lowtide.planning.objects.greedy_by_size import greedy_best
from lowtide.planning.objects.prices import Prices, dual_bound
from lowtide.planning.objects.pricing import PricingLimits, best_prices
from lowtide.planning.objects.size_class_program import SizeClassProgram
from lowtide.planning.objects.size_class_search import SearchLimits, SizeClassSearch
from lowtide.planning.objects.size_classes import SizeClasses, objects_of, size_classes
from lowtide.planning.objects.task_profile import shared
from lowtide.planning.plans import CliqueBound, DualBound, ObjectsAssignment
from lowtide.planning.problem import Int64Array, TensorUsageRecord
from lowtide.planning.registry import ObjectOptions, ObjectStrategy
from lowtide.search.effort import Effort, SearchOptions, StopReason

Result = TypeVar("Result")

POLL_SECONDS: Final = 0.05


def run_stoppable(
    solve: Callable[[], Result], stop: Callable[[], None], over: Callable[[], bool]
) -> Result:
    """Return what `solve` does, with `stop` called from when `over` is true.

    `solve` has to release the interpreter's lock and to return soon after `stop`. Ctrl-C stops it
    too, and then raises KeyboardInterrupt.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(solve)
        try:
            while not _done(future):
                if over():
                    stop()
        except KeyboardInterrupt:
            while not _done(future):
                stop()
            raise
        return future.result()


def _done(future: Future[Result]) -> bool:
    """Wait a moment and return whether the future is done."""
    return bool(wait([future], POLL_SECONDS).done)


PRICING: Final[Mapping[Effort, PricingLimits]] = {
    Effort.FAST: PricingLimits(work=0.2, rounds=6),
    Effort.DEFAULT: PricingLimits(work=8, rounds=20),
    Effort.PROOF: PricingLimits(work=100, rounds=1000),
}

SEARCH: Final[Mapping[Effort, SearchLimits]] = {
    Effort.FAST: SearchLimits(work=0.5, literals=30_000),
    Effort.DEFAULT: SearchLimits(work=10, literals=300_000),
    Effort.PROOF: SearchLimits(work=300, literals=2_000_000),
}

WIDER: Final = 4
"""How many times further above the bound the next target is."""


class _StoppedError(Exception):
    """The search has to end."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


def exact(records: Sequence[TensorUsageRecord], options: ObjectOptions) -> ObjectsAssignment:
    """Return the smallest objects, or the best found until a limit, with the bound proved so far.

    The evidence is for a lower bound than that of the result where a search raised it.
    """
    search = _Search(records, options.search)
    try:
        search.run()
    except _StoppedError as stopped:
        return search.result(stopped.reason)
    except KeyboardInterrupt:
        return search.result(StopReason.INTERRUPT)
    return search.result(StopReason.DONE)


class _Search:
    """The best plan and the bound so far, in bytes."""

    def __init__(self, records: Sequence[TensorUsageRecord], options: SearchOptions) -> None:
        self._records = records
        self._options = options
        self._deadline = options.begun()
        self._best = naive(records, ObjectOptions())
        self._bound = self._best.lower_bound
        self._evidence: CliqueBound | DualBound | None = self._best.evidence

    def run(self) -> None:
        """Look for better plans and bounds; raises _StoppedError at a limit."""
        self._offer(greedy_best(self._records, ObjectOptions()))
        if self._finished():
            return
        problem = size_classes(self._records)
        prices = self._price(problem)
        if not self._finished():
            self._choose(problem, prices)

    def result(self, reason: StopReason) -> ObjectsAssignment:
        """Return the best plan so far."""
        best = self._best
        return ObjectsAssignment(
            best.object_ids, best.object_sizes, self._bound, self._evidence, reason
        )

    def _finished(self) -> bool:
        """Whether the plan is good enough; raises _StoppedError where the time is over."""
        total = self._best.total_size
        capacity = self._options.capacity
        if total <= self._bound or (capacity is not None and total <= capacity):
            return True
        if self._over():
            raise _StoppedError(StopReason.DEADLINE)
        return False

    def _over(self) -> bool:
        return self._deadline.passed

    def _offer(self, plan: ObjectsAssignment) -> None:
        if plan.total_size < self._best.total_size:
            self._best = plan
            self._tell()

    def _raise(self, bound: int, evidence: DualBound | None) -> None:
        if bound > self._bound:
            self._bound = bound
            self._evidence = evidence or self._evidence
            self._tell()

    def _tell(self) -> None:
        if self._options.progress:
            self._options.progress(self._best.total_size, self._bound)

    def _price(self, problem: SizeClasses) -> Prices:
        """Raise the bound by prices, and return the best ones."""
        best = Prices(np.zeros(len(problem), np.int64), 1)
        evident = self._best.evidence
        tasks = evident.sizes if isinstance(evident, CliqueBound) else ()
        sizes = [*tasks, *[nbytes for nbytes in self._best.object_sizes if isinstance(nbytes, int)]]
        start = [nbytes // problem.unit for nbytes in sizes if nbytes]
        limits = PRICING[self._options.effort]
        for prices in best_prices(problem, start, self._solved, limits):
            best = prices
            evidence = dual_bound(problem, prices, len(self._records))
            self._raise(prices.bound * problem.unit, evidence)
            if self._finished():
                break
        return best

    def _solved(self, program: SizeClassProgram) -> npt.NDArray[np.float64] | None:
        found = run_stoppable(program.solve, program.stop, self._over)
        if self._over():
            raise _StoppedError(StopReason.DEADLINE)
        return found

    def _choose(self, problem: SizeClasses, prices: Prices) -> None:
        """Look for plans at the bound, and then further and further above it."""
        above = 0
        while True:
            least = self._bound // problem.unit
            most = self._best.total_size // problem.unit - 1
            target = min(most, least + above)
            search = SizeClassSearch(problem, prices, target, SEARCH[self._options.effort])
            if not search.small_enough:
                raise _StoppedError(StopReason.LIMIT)
            found = run_stoppable(search.solve, search.stop, self._over)
            if found.chosen is not None:
                self._offer(self._plan(problem, found.chosen))
            self._raise(found.bound * problem.unit, None)
            if self._finished():
                return
            if found.chosen is not None or target == most:
                raise _StoppedError(StopReason.LIMIT)
            above = max(WIDER * above, (most - least) // 64, 1)

    def _plan(self, problem: SizeClasses, chosen: Int64Array) -> ObjectsAssignment:
        sizes = np.zeros(len(self._records), np.int64)
        sizes[problem.number] = chosen * problem.unit
        ids = objects_of(self._records, sizes.tolist())
        return shared(self._records, ids, max(ids, default=-1) + 1)


STRATEGIES: Final = (
    ObjectStrategy(
        "exact",
        exact,
        "the smallest objects that there are, proved by prices of the tensors",
        "lowtide",
        any_order=True,
    ),
)
