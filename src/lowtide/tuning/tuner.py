"""The way in which each kernel of a program runs, measured before or now."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from typing import Final

from lowtide.codegen.cpu.kernels import Kernels, scratch_of
from lowtide.codegen.likeness import likeness
from lowtide.codegen.program import NO_CODE
from lowtide.files.object_cache import ObjectCache
from lowtide.ir import Instruction, Module
from lowtide.ir.opcode import CALLERS
from lowtide.llvm.target import Target
from lowtide.records import dataclass
from lowtide.tuning.candidates import Candidate, Tunable, candidate_of, key_of
from lowtide.tuning.measuring import measure

LOOP_RUNS: Final = 16
"""How often what stands in a called computation is taken to run."""


@dataclass(frozen=True, slots=True)
class TuningLimits:
    """What measuring may take: seconds for a kernel and for a program, and bytes of arrays.

    A kernel that should take less than `least_seconds` on one thread is left as it is, as is one
    for which no other way takes less than 1 - `margin` of the first one's time.
    """

    kernel_seconds: float = 0.05
    all_seconds: float = 5.0
    least_seconds: float = 20e-6
    most_bytes: int = 1 << 29
    margin: float = 0.03


Measure = Callable[[Tunable, Sequence[Candidate], Target, int, ObjectCache, float], Sequence[float]]


class Tuner:
    """Chooses ways to run kernels, for one target and number of threads.

    Machine code is kept in `objects`, times in `remembered`: lists of seconds in JSON.
    """

    def __init__(
        self,
        target: Target,
        threads: int,
        objects: ObjectCache,
        remembered: ObjectCache,
        limits: TuningLimits | None = None,
        measure: Measure = measure,
    ) -> None:
        self.target = target
        self.threads = threads
        self.objects = objects
        self.remembered = remembered
        self.limits = limits or TuningLimits()
        self._measure = measure
        self._known: dict[str, list[float]] = {}
        self._left = self.limits.all_seconds

    def tune(self, module: Module, kernels: Kernels, *, lean: bool) -> None:
        """Have the kernels of a scheduled module run in the ways that take least time.

        With `lean` no way may need more scratch than the first one does. What takes most time is
        measured first.
        """
        works = sorted(works_of(module, kernels), key=lambda x: -x.seconds)
        for work in works:
            if work.first.seconds >= self.limits.least_seconds:
                kernels.prefer(work.instruction, self._chosen(work, lean=lean).plan)

    def _chosen(self, work: Tunable, *, lean: bool) -> Candidate:
        """The fastest way; the first one where none is faster by a margin, or that is not known."""
        candidates = work.candidates()
        times = self._times(work, candidates) if len(candidates) > 1 else None
        if times is None:
            return work.first
        scratch = [scratch_of(x.plan, self.threads) for x in candidates]
        allowed = [i for i, x in enumerate(scratch) if not lean or x <= scratch[0]]
        best = min(allowed, key=lambda i: (times[i], i))
        is_better = times[best] < (1 - self.limits.margin) * times[0]
        return candidates[best if is_better else 0]

    def _times(self, work: Tunable, candidates: tuple[Candidate, ...]) -> list[float] | None:
        """The seconds of each way; None where it is not known and there is no time to measure."""
        key = key_of(candidates, self.target, self.threads)
        known = self._known.get(key) or read_times(self.remembered.get(key), len(candidates))
        if known is None and self._left > 0 and self._has_room(work):
            start = perf_counter()
            limit = min(self.limits.kernel_seconds, self._left)
            arguments = (self.target, self.threads, self.objects, limit)
            known = list(self._measure(work, candidates, *arguments))
            self._left -= perf_counter() - start
            self.remembered.put(key, json.dumps(known).encode())
        if known is not None:
            self._known[key] = known
        return known

    def _has_room(self, work: Tunable) -> bool:
        return work.nbytes(self.threads) <= self.limits.most_bytes


def read_times(data: bytes | None, count: int) -> list[float] | None:
    """Return the seconds that are remembered, None where they are not or are none of `count`."""
    try:
        found = json.loads(data or b"null")
    except ValueError:
        return None
    if not isinstance(found, list) or len(found) != count:
        return None
    if not all(isinstance(x, float) and 0 < x < float("inf") for x in found):
        return None
    return found


def works_of(module: Module, kernels: Kernels) -> list[Tunable]:
    """Return what of a scheduled module can run in several ways, each kernel once."""
    assert module.schedule is not None
    runs: dict[Hashable, int] = {}
    first: dict[Hashable, Instruction] = {}
    for computation, order in module.schedule.sequences.items():
        times = 1 if computation is module.entry else LOOP_RUNS
        for instruction in order:
            if instruction.opcode in NO_CODE or instruction.opcode in CALLERS:
                continue
            key = likeness(instruction)
            first.setdefault(key, instruction)
            runs[key] = runs.get(key, 0) + times
    pairs = [(x, kernels.plan(x), runs[key]) for key, x in first.items()]
    return [
        Tunable(x, candidate_of(plan), times)
        for x, plan, times in pairs
        if plan.others is not tuple
    ]
