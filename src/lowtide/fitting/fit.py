"""The search for the largest size at which a program fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Final

from lowtide import compiler
from lowtide.compiler import DEFAULT_PLAN, ModulePlan, PlanOptions
from lowtide.fitting.dimensions import DimensionError, NamedDimension, module_leaves
from lowtide.fitting.peaks import SizedPeaks, bytes_by_step, sized_peaks
from lowtide.fitting.resizing import ResizableModule
from lowtide.ir import Module
from lowtide.records import dataclass
from lowtide.report.fit import FitProof, FitReport, SizedPlan

_LARGEST: Final = 1 << 40
"""No larger size is tried."""
_ROUNDS: Final = 3

Progress = Callable[[str], None]


def fit_module(
    module: Module,
    dimension: NamedDimension,
    limit: int,
    options: PlanOptions = DEFAULT_PLAN,
    progress: Progress | None = None,
) -> FitReport:
    """Return the largest size of a dimension at which one call of a module takes `limit` bytes.

    Raises DimensionError for a dimension that the module does not have, SpecializedError where the
    module holds for its own size only, and what `compiler.plan` raises.
    """
    leaves = dimension.leaves(module_leaves(module))
    places = [(leaf.key[0], leaf.key[1], axis) for leaf, axis in leaves]
    resizable = ResizableModule(module, places)
    sized = SizedProgram(resizable.at, resizable.size, resizable.step, dimension)
    return fit_program(sized, limit, options, progress)


@dataclass(frozen=True, eq=False, slots=True)
class SizedProgram:
    """A program at sizes that are multiples of `step`; `given` is the one that it was given at.

    `dimension` names the axes of its arguments that have the size.
    """

    build: Callable[[int], Module]
    given: int
    step: int
    dimension: NamedDimension


def fit_program(
    program: SizedProgram,
    limit: int,
    options: PlanOptions = DEFAULT_PLAN,
    progress: Progress | None = None,
) -> FitReport:
    """Return the largest size at which one call of a program takes at most `limit` bytes."""
    return _Search(program, limit, options, progress or (lambda text: None)).run()


@dataclass(eq=False)
class _Search:
    program: SizedProgram
    limit: int
    options: PlanOptions
    progress: Progress
    plans: dict[int, ModulePlan] = field(default_factory=dict)
    count: int = 0

    def run(self) -> FitReport:
        """The report, once the sizes around the limit are planned."""
        program = self.program
        given = self.plan(program.given)
        peaks = self.peaks()
        low, high = self.bracket(self.near(self.guess(peaks, self.limit), peaks))
        if peaks is not None and not self.confirms(peaks, high if low is None else low):
            peaks = None
        return FitReport(
            given.module.name,
            self.program.dimension.name,
            program.given,
            program.step,
            self.limit,
            None if low is None else self.sized(low),
            None if high is None else self.sized(high),
            () if peaks is None else peaks.pieces(program.step),
            tuple(self.grown()),
            self.count,
        )

    def plan(self, size: int) -> ModulePlan:
        """The plan at a size."""
        if size not in self.plans:
            self.progress(f"planning for {self.program.dimension.name} = {size:,}")
            self.plans[size] = compiler.plan(self.program.build(size), self.options)
            self.count += 1
        return self.plans[size]

    def fits(self, size: int) -> bool:
        """Whether the plan at a size fits."""
        return self.plan(size).report.total_bytes <= self.limit

    def sized(self, size: int) -> SizedPlan:
        """What is known at a size."""
        report = self.plan(size).report
        total = report.total_bytes
        bound = total - report.ladder.arena_bytes + report.ladder.bound_bytes
        proof = FitProof.BOUND if bound > self.limit else FitProof.NO_PLAN
        return SizedPlan(size, total, bound, FitProof.PLAN if total <= self.limit else proof)

    @cached_property
    def frozen(self) -> ResizableModule | None:
        """The planned module at other sizes, with its kernels and their order.

        None where the program has dropped an argument that has the dimension.
        """
        module = self.plan(self.program.given).module
        try:
            leaves = self.program.dimension.leaves(module_leaves(module))
        except DimensionError:
            return None
        places = [(leaf.key[0], leaf.key[1], axis) for leaf, axis in leaves]
        return ResizableModule(module, places)

    def peaks(self) -> SizedPeaks | None:
        """The peaks of the steps by size; None where the kernels cannot be had at others."""
        return None if self.frozen is None else sized_peaks(self.frozen, self.options)

    def confirms(self, peaks: SizedPeaks, size: int | None) -> bool:
        """Whether the polynomials hold at a further size, too."""
        if size is None or size in peaks.sizes or self.frozen is None:
            return True
        row = bytes_by_step(self.frozen.at(size), self.options)
        return int(row.max(initial=0)) == peaks.at(size)

    def guess(self, peaks: SizedPeaks | None, limit: int) -> int:
        """A size near the largest one that fits."""
        if peaks is None:
            return self.by_secant()
        return self.rounded(_largest(lambda size: peaks.at(size) <= limit))

    def near(self, size: int, peaks: SizedPeaks | None) -> int:
        """A nearer size: plans have kernels of their own, and holes, which count once known."""
        for _ in range(_ROUNDS if peaks is not None else 0):
            assert peaks is not None
            more = self.plan(size).report.total_bytes - peaks.at(size)
            better = self.guess(peaks, self.limit - more)
            if better == size:
                break
            size = better
        return size

    def by_secant(self) -> int:
        """A size near the largest one by the peaks at the size given and at three times of it."""
        given = self.program.given
        first, last = [self.plan(size).report.total_bytes for size in (given, 3 * given)]
        if last <= first:
            return given
        return self.rounded(given + (self.limit - first) * 2 * given // (last - first))

    def rounded(self, size: int) -> int:
        """A size that the program can have: a multiple of its step, from that on."""
        step = self.program.step
        return max(step, min(size, _LARGEST) // step * step)

    def bracket(self, guess: int) -> tuple[int | None, int | None]:
        """The largest size that fits, and the following one; None for what there is not."""
        step = self.program.step
        low, high, reach = guess, guess, step
        while high <= _LARGEST and self.fits(high):
            low, high, reach = high, high + reach, 2 * reach
        if high > _LARGEST:
            return low, None
        reach = step
        while not self.fits(low):
            if low == step:
                return None, step
            high, low, reach = low, self.rounded(low - reach), 2 * reach
        while high - low > step:
            middle = self.rounded((low + high) // 2)
            low, high = (middle, high) if self.fits(middle) else (low, middle)
        return low, high

    def grown(self) -> list[str]:
        """The names of the arguments that are larger at a larger size."""
        build, given = self.program.build, self.program.given
        rows = [{x.name: x.sizes for x in module_leaves(build(k * given))} for k in (1, 2)]
        before, after = rows
        return [name for name, sizes in after.items() if before.get(name, sizes) != sizes]


def _largest(holds: Callable[[int], bool]) -> int:
    """The largest size for which something holds that fails from some size on; 0 for none."""
    low, high = 0, 1
    while high < _LARGEST and holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
