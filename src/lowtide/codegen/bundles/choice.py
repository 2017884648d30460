"""Choice of the thunks that become bundles: those whose work is less than what sharing it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lowtide.cost.machine import X86_SERVER
from lowtide.ir.thunk import (
    ASSUMED_TRIPS,
    BundleThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    HostCallThunk,
    KernelEntry,
    KernelThunk,
    Thunk,
    WhileThunk,
    all_thunks,
)
from lowtide.records import dataclass

_LEAST_SHARE: Final = 0.1
"""The least part of its own time that a bundle has to save."""

_LEAST_GAIN: Final = 0.01
"""The least part of the program's time that a bundle has to save."""


@dataclass(frozen=True, slots=True)
class ThunkCosts:
    """Estimates for the thunks of a program: seconds by number of kernel, lines of their code."""

    seconds: Sequence[float]
    lines: Sequence[int]

    def of(self, thunk: Thunk) -> float:
        """Return the seconds that a thunk takes on one thread, each loop taken to trip once."""
        return sum([self._of_one(x) for x in all_thunks([thunk])])

    def lines_of(self, thunk: Thunk) -> int:
        """Return the lines of all kernels that a thunk runs."""
        inner = (x for x in all_thunks([thunk]) if isinstance(x, KernelThunk))
        return sum([self.lines[x.kernel] for x in inner])

    def _of_one(self, thunk: Thunk) -> float:
        if isinstance(thunk, KernelThunk):
            return self.seconds[thunk.kernel]
        if isinstance(thunk, CopyThunk):
            return thunk.source.nbytes / X86_SERVER.copy_bytes_per_second
        return 0.0


def costs_of(kernels: Sequence[KernelEntry], texts: Sequence[str]) -> ThunkCosts:
    """Return what kernels cost, whose modules are `texts`."""
    seconds = [sum([x.units * x.unit_seconds for x in kernel.phases]) for kernel in kernels]
    return ThunkCosts(seconds, [text.count("\n") for text in texts])


def with_bundles(
    thunks: Sequence[Thunk], costs: ThunkCosts, most_lines: int
) -> tuple[tuple[Thunk, ...], tuple[BundleThunk, ...]]:
    """Return thunks in which runs of small ones are bundles, and these in order.

    A bundle has kernels of `most_lines` lines together at most, unless one thunk has more.
    """
    choice = _Choice(costs, most_lines)
    choice.total = choice.weight(thunks, 1)
    found = choice.sequence(thunks, 1)
    return found, tuple(choice.bundles)


class _Choice:
    def __init__(self, costs: ThunkCosts, most_lines: int) -> None:
        self.costs = costs
        self.most_lines = most_lines
        self.total = 0.0
        self.bundles: list[BundleThunk] = []

    def weight(self, thunks: Sequence[Thunk], runs: int) -> float:
        """About how long thunks take that run so often, from one to the next included."""
        total = 0.0
        for thunk in thunks:
            total += runs * X86_SERVER.step_seconds
            if isinstance(thunk, WhileThunk):
                total += self.weight((*thunk.condition, *thunk.body), runs * ASSUMED_TRIPS)
            elif isinstance(thunk, ConditionalThunk):
                total += max([self.weight(x, runs) for x in thunk.branches])
            else:
                total += runs * self.costs.of(thunk)
        return total

    def sequence(self, thunks: Sequence[Thunk], runs: int) -> tuple[Thunk, ...]:
        """Bundle what is small among thunks that run one after the other, `runs` times."""
        found: list[Thunk] = []
        run: list[Thunk] = []
        lines = 0
        for thunk in thunks:
            if not self.is_small(thunk):
                found += [*self.closed(run, runs), self.inside(thunk, runs)]
                run, lines = [], 0
                continue
            more = self.costs.lines_of(thunk)
            if run and lines + more > self.most_lines:
                found += self.closed(run, runs)
                run, lines = [], 0
            run.append(thunk)
            lines += more
        found += self.closed(run, runs)
        return tuple(found)

    def is_small(self, thunk: Thunk) -> bool:
        """Whether a thunk calls and meets nothing outside, and what it runs is small."""
        if self.costs.lines_of(thunk) > self.most_lines:
            return False
        inner = list(all_thunks([thunk]))
        if any(isinstance(x, HostCallThunk | CollectiveThunk) for x in inner):
            return False
        works = (x for x in inner if isinstance(x, KernelThunk | CopyThunk))
        return all(self.costs.of(x) < X86_SERVER.launch_seconds for x in works)

    def closed(self, run: Sequence[Thunk], runs: int) -> Iterator[Thunk]:
        """A run of small thunks, as a bundle where that is worth it."""
        steps = self.steps(run, runs)
        saved = steps * X86_SERVER.step_seconds
        own = self.weight(run, runs)
        if steps <= runs or saved < max(_LEAST_SHARE * own, _LEAST_GAIN * self.total):
            yield from run
            return
        seconds = sum([self.costs.of(x) for x in run])
        bundle = BundleThunk(run[0].name, f"bundle{len(self.bundles)}", seconds, tuple(run))
        self.bundles.append(bundle)
        yield bundle

    def steps(self, thunks: Sequence[Thunk], runs: int) -> int:
        """About how many steps thunks take."""
        total = 0
        for thunk in thunks:
            total += runs
            if isinstance(thunk, WhileThunk):
                total += self.steps((*thunk.condition, *thunk.body), runs * ASSUMED_TRIPS)
            elif isinstance(thunk, ConditionalThunk):
                total += max([self.steps(x, runs) for x in thunk.branches])
        return total

    def inside(self, thunk: Thunk, runs: int) -> Thunk:
        """A thunk that is no part of a bundle, with the bundles within it."""
        trips = runs * ASSUMED_TRIPS if isinstance(thunk, WhileThunk) else runs
        return thunk.map_sequences(lambda inner: self.sequence(inner, trips))
