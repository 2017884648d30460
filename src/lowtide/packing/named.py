"""Packing problems with names, and their plans by the strategies of `planning`."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np

from lowtide.frontend.packing_csv import PackingFile
from lowtide.ir import LowtideError
from lowtide.packing.simplified import objects_end_to_end, place_simplified
from lowtide.planning import (
    ARENA,
    FREE,
    ObjectsAssignment,
    OffsetsAssignment,
    PackingProblem,
    SearchOptions,
    StopReason,
    max_live,
    object_strategies,
    offset_strategies,
    offset_strategy,
)
from lowtide.planning.certificates import evidence_name
from lowtide.records import dataclass

QUICK: Final = "portfolio"
EXACT: Final = "exact"
"""The strategies that are tried where none is named, the second where the first leaves a gap."""

MOST_CERTIFIED: Final = 100_000
"""Plans of more buffers take seconds to write a certificate for, which is done if asked for."""

MOST_EXACT: Final = 20_000
"""Problems of more buffers are left to the quick strategy, unless the exact one is asked for."""

KINDS: Final = ("offsets", "objects")


@dataclass(frozen=True, eq=False, slots=True)
class NamedProblem:
    """A packing problem, and what to call it and its buffers.

    `notes` say what of the input is not part of the problem. `details` are what else to say about
    each buffer, such as its line in the user's program.
    """

    title: str
    names: tuple[str, ...]
    problem: PackingProblem
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


class StrategyAttempt(NamedTuple):
    """What a strategy came to: the height of its arena in bytes, and its seconds."""

    strategy: str
    height: int
    seconds: float


@dataclass(frozen=True, eq=False, slots=True)
class SolvedPacking:
    """Where the buffers of a problem lie, by the best of some attempts, and what is proved.

    `region` and `offset` are per buffer; `height` is what the arena takes, which no offsets make
    lower than `lower_bound`. `changes` say what of the problem the strategy does not know, `remark`
    what else was not tried. The assignment is that of the planner: of objects, where it shares
    those. The `evidence` of its certificate proves `certified_bound`, which is lower than
    `lower_bound` where the search that proved that is too long to be written down.
    """

    kind: str
    attempts: tuple[StrategyAttempt, ...]
    assignment: OffsetsAssignment
    objects: ObjectsAssignment | None = None
    changes: tuple[str, ...] = ()
    remark: str = ""
    evidence: str | None = None
    certified_bound: int = 0

    @property
    def strategy(self) -> str:
        """The strategy that made the plan."""
        return min(self.attempts, key=lambda x: x.height).strategy

    @property
    def height(self) -> int:
        """The bytes of the arena."""
        return self.assignment.total_size

    @property
    def lower_bound(self) -> int:
        """The bytes that any plan takes: of objects, any that shares them."""
        return self.assignment.lower_bound if self.objects is None else self.objects.lower_bound

    @property
    def optimal(self) -> bool:
        """Whether no plan takes less."""
        return self.height <= self.lower_bound

    @property
    def stopped(self) -> StopReason:
        """Why the search ended."""
        chosen = self.assignment if self.objects is None else self.objects
        return chosen.stopped

    @property
    def seconds(self) -> float:
        """The wall time of all attempts."""
        return sum([x.seconds for x in self.attempts])

    def certificate(self) -> dict[str, Any]:
        """Return what anybody can check about the plan, as `lowtide verify` takes it."""
        return (self.assignment if self.objects is None else self.objects).certificate()


# -- from files --------------------------------------------------------------------------------


def named_problem(file: PackingFile) -> NamedProblem:
    """Return the problem in a CSV file."""
    count = len(file.nbytes)
    fixed = np.full(count, FREE, np.int64)
    for number, offset in file.fixed.items():
        fixed[number] = offset
    problem = PackingProblem(
        np.array(file.nbytes, np.int64),
        np.array(file.alignment, np.int64),
        np.array(file.item, np.int64),
        np.array(file.first, np.int64),
        np.array(file.last, np.int64),
        fixed,
        np.full(count, ARENA, np.int64),
        np.zeros(0, np.int64),
    )
    return NamedProblem(file.file, file.ids, problem)


# -- solving -----------------------------------------------------------------------------------


def split_strategy(text: str) -> tuple[str, str]:
    """Return the kind and the name of a strategy written `offsets:NAME`, `objects:NAME` or `NAME`.

    A name that both kinds have is taken for one of offsets. Raises LowtideError for an unknown one.
    """
    kind, colon, name = text.partition(":")
    if not colon:
        objects = text in object_strategies() and text not in offset_strategies()
        kind, name = KINDS[objects], text
    if kind not in KINDS:
        raise LowtideError(f"no kind of strategies {kind!r}; there are: {', '.join(KINDS)}")
    try:
        if kind == "offsets":
            offset_strategy(name)
        elif name not in object_strategies():
            raise ValueError(
                f"unknown strategy for objects {name!r}; there are: "
                f"{', '.join(object_strategies())}"
            )
    except ValueError as error:
        raise LowtideError(f"{error}; `lowtide planners` explains them") from None
    return kind, name


def solve(
    problem: PackingProblem, strategy: str | None = None, search: SearchOptions | None = None
) -> SolvedPacking:
    """Return a plan by one strategy, or by the quick one and where that leaves a gap, the exact.

    What a strategy does not know of the problem is taken out, where a plan without is one with it
    too. Raises LowtideError for an unknown strategy, and where it cannot be taken out.
    """
    limits = search or SearchOptions()
    if strategy is None:
        return _with_proof(_solve_in_two_steps(problem, limits))
    kind, name = split_strategy(strategy)
    try:
        by_kind = _by_offsets if kind == "offsets" else _by_objects
        return _with_proof(by_kind(problem, name, limits))
    except ValueError as error:
        raise LowtideError(str(error)) from None


def _by_offsets(problem: PackingProblem, name: str, search: SearchOptions) -> SolvedPacking:
    start = perf_counter()
    assignment, changes = place_simplified(problem, name, search)
    attempt = StrategyAttempt(name, assignment.total_size, perf_counter() - start)
    return SolvedPacking("offsets", (attempt,), assignment, None, changes)


def _by_objects(problem: PackingProblem, name: str, search: SearchOptions) -> SolvedPacking:
    start = perf_counter()
    assignment, objects, changes = objects_end_to_end(problem, name, search)
    attempt = StrategyAttempt(name, assignment.total_size, perf_counter() - start)
    return SolvedPacking("objects", (attempt,), assignment, objects, changes)


def _solve_in_two_steps(problem: PackingProblem, search: SearchOptions) -> SolvedPacking:
    search = replace(search, deadline=search.begun())
    quick = _by_offsets(problem, QUICK, search)
    enough = max(quick.lower_bound, search.capacity or 0)
    if quick.height <= enough:
        return quick
    if len(problem) > MOST_EXACT:
        remark = f"{EXACT} is not tried on more than {MOST_EXACT:,} buffers, unless asked for"
        return replace(quick, remark=remark)
    if quick.stopped is StopReason.INTERRUPT:
        return quick
    from lowtide.planning.exact.pack import exact

    start = perf_counter()
    try:
        packing = exact(problem, quick.assignment.packing, search)
    except KeyboardInterrupt:
        stopped = replace(quick.assignment.packing, stopped=StopReason.INTERRUPT)
        return replace(quick, assignment=replace(quick.assignment, packing=stopped))
    attempt = StrategyAttempt(EXACT, packing.arena_bytes, perf_counter() - start)
    bound = max(packing.bound, quick.assignment.lower_bound)
    offsets = tuple(packing.offset.tolist())
    found = OffsetsAssignment(problem, packing, offsets, packing.arena_bytes, bound)
    return SolvedPacking("offsets", (*quick.attempts, attempt), found)


def _with_proof(solved: SolvedPacking) -> SolvedPacking:
    """The same plan with what its certificate proves."""
    if len(solved.assignment.problem) > MOST_CERTIFIED:
        bound = max_live(solved.assignment.problem)
        return replace(solved, evidence="live", certified_bound=bound)
    document = solved.certificate()
    bound = document["bound"]
    solved = replace(solved, evidence=evidence_name(document), certified_bound=bound)
    if solved.objects is not None:
        return solved
    lower_bound = max(bound, solved.lower_bound)
    return replace(solved, assignment=replace(solved.assignment, lower_bound=lower_bound))
