"""The search for the quickest division of a program that fits on each device.

    a plan by data, for an answer soon
        -> strategies -> estimates -> plans of the usual ones -> of the smallest, until one fits
        -> plans of the most promising -> changes of the best -> estimates -> ..

An estimate costs a part of a plan. Of what was planned it is known how far the estimates are off,
which corrects those of the others. While nothing fits, bytes alone decide, and the smallest are
tried in an order that is the same under any cap: what it comes to meets each larger one. The effort
is counted in instructions worked on, so that equal input gives equal choices; a deadline, or
Ctrl-C, ends it earlier with what is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Final, final

from lowtide.compiler import PlanOptions
from lowtide.compiler.options import DEFAULT_PLAN
from lowtide.cost.devices import DEVICES, DeviceRecord
from lowtide.ir import Module
from lowtide.ir.errors import InputError
from lowtide.records import dataclass
from lowtide.report.shardings import ShardingReport
from lowtide.search.deadline import Deadline
from lowtide.sharding_search.bound import least_bytes
from lowtide.sharding_search.division import Division
from lowtide.sharding_search.estimate import DivisionEstimate, Estimator
from lowtide.sharding_search.evaluation import DivisionPlanner, PlannedDivision, choice_of
from lowtide.sharding_search.mesh import SearchMesh
from lowtide.sharding_search.moves import neighbours
from lowtide.sharding_search.program import NO_RANKS, ShardableProgram, shardable_program
from lowtide.sharding_search.strategies import Arrays, strategies
from lowtide.sharding_search.travel import Travel
from lowtide.spmd.memo import SplitMemo

USUAL_DEVICE: Final = next(iter(DEVICES.values()))

_PLAN_WORK: Final = 6
"""A plan takes so many times the work of an estimate."""

_HOPELESS: Final = 1.4
"""What is expected to take so many times as long as the best, or to be so much larger than the cap,
is not planned."""


_SHARES: Final = (1 / 2, 1 / 4, 1 / 8)
"""The parts of the memory of the quickest division for which others are planned at last."""


_FAILURES: Final = 3
"""After so many plans in a row that are not better, changes of one division are given up."""

_SMALLER: Final = 48
"""So many changes of a division are estimated for one that takes less memory."""

_HOPEFUL: Final = 0.75
"""A peak may well be this part of its estimate, in which single operations are not fused."""


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """The most that a search does: estimates and plans, and instructions worked on in both."""

    estimates: int = 320
    plans: int = 18
    instructions: int = 700_000


DEFAULT_EFFORT: Final = SearchEffort()

_DATA: Final = 3
"""Of so many classes the one that makes the quickest step is first taken for the data."""

Key = tuple[float, float]
"""How good a division is, the least first: the part by which it is above the cap, then its time.

Where nothing fits yet, its bytes, then its time."""


def search_shardings(
    module: Module,
    mesh: SearchMesh,
    memory: int | None = None,
    device: DeviceRecord = USUAL_DEVICE,
    options: PlanOptions = DEFAULT_PLAN,
    *,
    ranks: Mapping[str, int] = NO_RANKS,
    deadline: Deadline | None = None,
    effort: SearchEffort = DEFAULT_EFFORT,
    progress: Callable[[str], None] | None = None,
) -> ShardingReport:
    """Return the divisions of a module's arguments over a mesh that fit, the quickest first.

    `memory` is what one device may hold, arguments and all, in bytes; None is any number. What its
    kernels need while they run counts where `options` tell it. `ranks` are those of arguments, by
    name, that have fewer dimensions in the program's source: what is beyond is whole. Raises
    InputError for a module whose division is given, and for a mesh that divides no dimension.
    """
    found = prepared(module, mesh, device, options, ranks=ranks)
    return search_prepared(found, memory, deadline=deadline, effort=effort, progress=progress)


@dataclass(frozen=True, eq=False, slots=True)
class PreparedSearch:
    """A program to be divided, with what makes its estimates and its plans.

    `unused` are the sizes of axes that divide no dimension.
    """

    program: ShardableProgram
    estimator: Estimator
    planner: DivisionPlanner
    unused: tuple[int, ...]


def prepared(
    module: Module,
    mesh: SearchMesh,
    device: DeviceRecord = USUAL_DEVICE,
    options: PlanOptions = DEFAULT_PLAN,
    *,
    keeps: bool = False,
    ranks: Mapping[str, int] = NO_RANKS,
) -> PreparedSearch:
    """Return what searches of one program need; with `keeps`, several share what they planned.

    Raises as `search_shardings` does.
    """
    program = shardable_program(module, mesh, ranks)
    unused = [
        size
        for size in mesh.sizes
        if not any(length and length % size == 0 for own in program.sizes for length in own)
    ]
    if len(unused) == len(mesh.sizes):
        raise InputError(
            f"{module.name}: no dimension of an argument divides by {_either(unused)}: "
            "give another mesh"
        )
    splits = SplitMemo()
    planner = DivisionPlanner(program, device, options, keeps=keeps, splits=splits)
    estimator = Estimator(program, device, splits)
    return PreparedSearch(program, estimator, planner, tuple(unused))


def search_prepared(
    found: PreparedSearch,
    memory: int | None = None,
    *,
    deadline: Deadline | None = None,
    effort: SearchEffort = DEFAULT_EFFORT,
    progress: Callable[[str], None] | None = None,
) -> ShardingReport:
    """Return the divisions that fit, as `search_shardings` does."""
    search = _Search(found, memory, deadline or Deadline(), effort)
    search.tell = progress or search.tell
    with search.deadline.held():
        search.run()
    return search.report()


def _either(sizes: Iterable[int]) -> str:
    return " or by ".join([str(size) for size in dict.fromkeys(sizes)])


@final
class _Search:
    def __init__(
        self, prepared: PreparedSearch, memory: int | None, deadline: Deadline, effort: SearchEffort
    ) -> None:
        self.program = prepared.program
        self.unused = prepared.unused
        self.memory = memory
        self.deadline = deadline
        self.effort = effort
        self.planned: dict[Division, PlannedDivision] = {}
        self.tell: Callable[[str], None] = lambda text: None
        self._work = 0
        self._size = max(1, self.program.module.instruction_count)
        self._estimator = prepared.estimator
        self._planner = prepared.planner
        self._work_is_needed = False
        self._plans_left = 0
        """So many plans, of the effort, are left for smaller divisions than the best."""
        self._slowest = 0.0
        self._first = self._estimator.count

    def run(self) -> None:
        """Plan an answer soon, strategies, changes of the best while that helps, smaller ones."""
        travel = Travel(self.program)
        states = frozenset(range(len(self.program.leaves))) - travel.multiplied()
        updated = {number for number, x in enumerate(self.program.leaves) if x.is_updated}
        arrays = Arrays(self.program, travel.classes(), states & updated)
        self._plan_first(arrays)
        seeds = list(strategies(arrays, self.estimate))
        self._plan_usual(dict.fromkeys([x.division for x in seeds if x.is_usual]))
        self._plan_until_one_fits(arrays)
        self._plans_left = min(len(_SHARES), self.effort.plans // 6)
        self._plan_promising(list(dict.fromkeys([x.division for x in seeds])))
        self._climb(arrays)
        self._plan_smaller()

    def report(self) -> ShardingReport:
        """Return what was found."""
        memory = self.memory
        fitting = [x for x in self.planned.values() if memory is None or x.peak_bytes <= memory]
        fitting.sort(key=lambda x: (x.seconds, x.peak_bytes, x.wire_bytes))
        kept: list[PlannedDivision] = []
        for x in fitting:
            if not kept or x.peak_bytes < kept[-1].peak_bytes:
                kept.append(x)
        remarks = list(self.deadline.remarks())
        if self.program.constraints:
            one = self.program.constraints == 1
            asked = "1 sharding" if one else f"{self.program.constraints} shardings"
            remarks.append(
                f"{asked} that the program asks of values inside {'was' if one else 'were'} "
                "left aside"
            )
        remarks += [f"no dimension of an argument divides by {x}" for x in self.unused]
        uncounted = ", ".join(sorted(self._planner.uncounted))
        if uncounted:
            remarks.append(f"scratch of what has no native code is left out: {uncounted}")
        return ShardingReport(
            self.program.module.name,
            self.program.mesh.count,
            memory,
            least_bytes(self.program),
            min([x.peak_bytes for x in self.planned.values()], default=None),
            tuple([choice_of(self.program, x) for x in kept]),
            self._estimates,
            len(self.planned),
            tuple(remarks),
        )

    # -- what is tried --------------------------------------------------------------------------

    def _plan_first(self, arrays: Arrays) -> None:
        """Plan a division by data, then fully sharded, until one fits: there is an answer soon."""
        axes = tuple(range(len(self.program.mesh.sizes)))
        uncut = sorted([x for x in arrays.classes if not x.is_cut], key=arrays.is_updated)
        divided = [arrays.with_class(self.program.whole, x, axes) for x in uncut[:_DATA]]
        guesses = [(x, guess) for x in divided if (guess := self.estimate(x)) is not None]
        if not guesses:
            return
        by_data, _ = min(guesses, key=lambda pair: pair[1].seconds)
        for division in (by_data, arrays.spread(by_data, range(len(self.program.leaves)), axes)):
            guess = self.estimate(division)
            if guess is not None and guess.peak_bytes <= self._most_bytes:
                self._plan(division)
            if self.planned and self._fits:
                break

    def _plan_usual(self, divisions: Iterable[Division]) -> None:
        """Plan what people write by hand, where it may fit and is not expected to be slow.

        Estimates of different kinds are off by different factors: what one says of the others is
        known only once each was planned.
        """
        guesses = [(division, self.estimate(division)) for division in divisions]
        known = [(division, guess) for division, guess in guesses if guess is not None]
        fitting = [pair for pair in known if pair[1].peak_bytes <= self._most_bytes]
        quickest = min([guess.seconds for _, guess in fitting], default=0.0)
        for division, guess in fitting:
            if guess.seconds <= quickest * _HOPELESS and self._plan(division) is None:
                break

    def _plan_until_one_fits(self, arrays: Arrays) -> None:
        """Plan what is estimated to take the least memory, then smaller changes of the smallest.

        Neither the cap nor what was planned before decides what is tried, and work goes on beyond
        the effort: a division that fits is worth more than a quick one.
        """
        chain: dict[Division, PlannedDivision] = {}
        widened: set[Division] = set()
        failures = 0
        self._work_is_needed = True
        while not self._fits and failures < _FAILURES and len(chain) < self.effort.plans // 2:
            known = self._estimator.known
            alike = {known[x] for x in chain}
            left = {guess: x for x, guess in reversed(known.items()) if guess not in alike}
            if not left:
                break
            division = left[min(left, key=lambda x: (x.peak_bytes, x.seconds))]
            least = min([x.peak_bytes for x in chain.values()], default=math.inf)
            found = self._plan(division)
            if found is None:
                break
            chain[division] = found
            failures = 0 if found.peak_bytes < least else failures + 1
            smallest = min(chain.values(), key=lambda x: x.peak_bytes)
            if not self._fits and smallest.division not in widened:
                widened.add(smallest.division)
                self._estimate_smaller(arrays, smallest.division)
        self._work_is_needed = False

    def _estimate_smaller(self, arrays: Arrays, division: Division) -> None:
        """Estimate changes of a division: those of the least bytes of arguments."""
        near = sorted(neighbours(arrays, division), key=self._argument_bytes)
        for x in near[:_SMALLER]:
            self.estimate(x)

    def _argument_bytes(self, division: Division) -> int:
        """The bytes of the arguments on one device."""
        mesh = self.program.mesh
        pairs = zip(self.program.leaves, division.leaves, strict=True)
        return sum([leaf.shape.leaf_nbytes // mesh.extent(sum(axes, ())) for leaf, axes in pairs])

    def _plan_promising(self, divisions: list[Division]) -> None:
        """Plan divisions, the most promising first, while they may be better than the best."""
        estimated = [x for x in divisions if self.estimate(x) is not None]
        most = len(self.planned) + self.effort.plans // 2
        while len(self.planned) < most:
            alike = {self._estimator.estimate(x) for x in self.planned}
            left = [x for x in estimated if self._estimator.estimate(x) not in alike]
            if not left:
                break
            # Every other one is a quick one that fits only if its peak is less than is expected.
            hopeful = len(self.planned) % 2 == 0
            chosen = min(left, key=lambda x: self._expected(x, hopeful=hopeful))
            if self.planned and not self._has_hope(chosen):
                chosen = min(left, key=self._expected)
                if not self._has_hope(chosen):
                    break
            if self._plan(chosen) is None:
                break

    def _climb(self, arrays: Arrays) -> None:
        """Change the best division step by step, planning what is expected to be better."""
        failures = 0
        tried: set[Division] = set()
        while self.planned and failures < _FAILURES:
            base = min(self.planned.values(), key=self._key)
            near = [
                x
                for x in neighbours(arrays, base.division)
                if x not in self.planned and x not in tried and self.estimate(x) is not None
            ]
            near.sort(key=lambda x: self._expected_beside(x, base))
            if not near or not self._expected_beside(near[0], base) < self._key(base):
                break
            tried.add(near[0])
            found = self._plan(near[0])
            if found is None:
                break
            failures = 0 if self._key(found) < self._key(base) else failures + 1

    def _plan_smaller(self) -> None:
        """Plan what is expected to take a half, a quarter, an eighth of the best one's memory.

        Where nothing takes so little, it is what takes least. That goes on beyond the work of the
        effort: with one row a table tells nothing of memory.
        """
        if not self.planned:
            return
        self._plans_left, self._work_is_needed = 0, True
        best = min(self.planned.values(), key=self._key)
        for share in _SHARES:
            peak, _ = self._corrections()
            known = [
                (guess.seconds, guess.peak_bytes, number, division)
                for number, (division, guess) in enumerate(self._estimator.known.items())
            ]
            small = [x for x in known if x[1] * peak <= best.peak_bytes * share]
            chosen = min(small) if small else min(known, key=lambda x: (x[1], x[0]))
            if small or chosen[1] * peak < best.peak_bytes:
                self._plan(chosen[-1])
            if not small:
                break
        self._work_is_needed = False

    def estimate(self, division: Division) -> DivisionEstimate | None:
        """Return the estimate of a division, None where the effort or the time is spent."""
        if division not in self._estimator:
            self._say()
            most = self.effort.estimates
            is_spent = self._estimates >= most and not self._work_is_needed
            if is_spent or not self._may_work(1):
                return None
            self._work += self._size
            with self.deadline.until_interrupted():
                return self._estimator.estimate(division)
            return None
        return self._estimator.estimate(division)

    def _plan(self, division: Division) -> PlannedDivision | None:
        """The plan of a division; None where the effort is spent, or the time as others took."""
        most = self.effort.plans - self._plans_left
        if division in self.planned or len(self.planned) >= most:
            return self.planned.get(division)
        self._say()
        is_first = not self.planned and not self.deadline.was_interrupted
        is_late = self.deadline.part(less=self._slowest).passed
        if not is_first and (is_late or not self._may_work(_PLAN_WORK)):
            return None
        self._work += _PLAN_WORK * self._size
        found, begun = None, self.deadline.elapsed
        with self.deadline.until_interrupted():
            found = self._planner.plan(division, self.memory)
        self._slowest = max(self._slowest, self.deadline.elapsed - begun)
        if found is not None:
            self.planned[division] = found
        return found

    def _say(self) -> None:
        """Tell how far the search is, with the best that fits so far."""
        text = f"{len(self.planned)} planned, {self._estimates} estimated"
        if self.planned and self._fits:
            best = min(self.planned.values(), key=self._key)
            text += f", best {best.seconds * 1e3:.3f} ms in {best.peak_bytes / 1e6:,.1f} MB"
        self.tell(text)

    @property
    def _estimates(self) -> int:
        return self._estimator.count - self._first

    def _may_work(self, units: int) -> bool:
        within = self._work + units * self._size <= self.effort.instructions
        return (within or self._work_is_needed) and not self.deadline.passed

    # -- how good it is -------------------------------------------------------------------------

    def _key(self, found: PlannedDivision) -> Key:
        return self._key_of(found.peak_bytes, found.seconds)

    def _key_of(self, peak: float, seconds: float) -> Key:
        if not self._fits:
            return peak, seconds
        excess = 0.0 if self.memory is None else max(0.0, peak / max(self.memory, 1) - 1)
        return excess, seconds

    @property
    def _most_bytes(self) -> float:
        """The most that is estimated of what may fit."""
        return math.inf if self.memory is None else self.memory * _HOPELESS / _HOPEFUL

    @property
    def _fits(self) -> bool:
        """Whether something that was planned fits; anything does without a cap."""
        memory = self.memory
        return memory is None or any(x.peak_bytes <= memory for x in self.planned.values())

    def _corrections(self) -> tuple[float, float]:
        """By how much peaks and times that were planned are those that were estimated, usually."""
        peaks, times = [], []
        for x in self.planned.values():
            guess = self._estimator.estimate(x.division)
            peaks.append(x.peak_bytes / max(guess.peak_bytes, 1))
            times.append(x.seconds / max(guess.seconds, 1e-12))
        return (median(peaks), median(times)) if peaks else (1.0, 1.0)

    def _expected(self, division: Division, *, hopeful: bool = False) -> Key:
        """What is expected of a division; with `hopeful`, where its peak is overestimated most."""
        guess = self._estimator.estimate(division)
        peak, time = self._corrections()
        peak = min(peak, self._least_peak_part) if hopeful else peak
        return self._key_of(guess.peak_bytes * peak, guess.seconds * time)

    @property
    def _least_peak_part(self) -> float:
        """The least part that a planned peak was of its estimate, or is taken to be."""
        known = self._estimator.known
        parts = [x.peak_bytes / max(known[x.division].peak_bytes, 1) for x in self.planned.values()]
        return min([_HOPEFUL, *parts])

    def _expected_beside(self, division: Division, base: PlannedDivision) -> Key:
        """What is expected by how the estimate differs from that of a planned division."""
        guess, known = self._estimator.estimate(division), self._estimator.estimate(base.division)
        peak = base.peak_bytes * guess.peak_bytes / max(known.peak_bytes, 1)
        return self._key_of(peak, base.seconds * guess.seconds / max(known.seconds, 1e-12))

    def _has_hope(self, division: Division) -> bool:
        best = min([self._key(x) for x in self.planned.values()])
        excess, seconds = self._expected(division, hopeful=True)
        if not self._fits:
            return excess < best[0]
        return excess < _HOPELESS - 1 and seconds < best[1] * _HOPELESS
