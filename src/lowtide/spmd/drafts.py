"""Drafts: what may be decided of the program of one device; the cheapest one is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from lowtide.ir import Instruction, Module
from lowtide.ir.tilings.tiling import Tiling, dividing
from lowtide.ir.traversal import computation_post_order
from lowtide.ops.factors.record import arrays_of, factors_of
from lowtide.records import dataclass
from lowtide.spmd.annotations import ModuleShardings
from lowtide.spmd.cells import ArrayCells, cells_of
from lowtide.spmd.choice import OperationSplit
from lowtide.spmd.memo import OperationMemo
from lowtide.spmd.propagation import propagate
from lowtide.spmd.reasons import SplitReason, split_reason
from lowtide.spmd.roles import Role
from lowtide.spmd.walk import DecidingWalk, DraftFindings, Follows, Inspected, Policy

_POLICIES: Final = (
    Policy(replicates_unknown=True),
    Policy(replicates_unknown=False),
    Policy(True, Follows.RESULTS),
    Policy(True, Follows.EVERYWHERE),
)

_EFFORT: Final = 60_000
"""How many instructions all drafts with the same tilings of parameters may have together."""

_HOPELESS: Final = 1.5
"""Other tilings that start so many times dearer than a parameter's own are not drafted further: of
2,000 random programs 17 had their cheapest draft from one that started dearer, up to 1.48 times."""

_MOST_INSTRUCTIONS: Final = 4000
"""Of larger modules parameters are not tried in other tilings than they come in."""

_MOST_MOVED: Final = 2
"""How many parameters are tried in other tilings."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What is decided: how leaves of parameters and result lie, and how instructions are split.

    `sent_bytes` are those of a device in one run, `work` what it computes as bytes sent meanwhile.
    """

    cells: ArrayCells
    splits: Mapping[Instruction, OperationSplit]
    parameters: tuple[Tiling, ...]
    results: tuple[Tiling, ...]
    inspections: tuple[Inspected, ...]
    sent_bytes: int
    work: float
    findings: DraftFindings
    moved: Mapping[int, float]

    @property
    def cost(self) -> float:
        """What drafts are compared by, in bytes that a device sends."""
        return self.sent_bytes + self.work

    def reasons(self) -> tuple[SplitReason, ...]:
        """Return what becomes of each operation, in the order in which they are decided."""
        cells = self.cells
        found = []
        for x, split in self.splits.items():
            if cells.memo.role(x) in (Role.DRAWN, Role.OPERATION):
                own = cells.of(x)
                why = own[0].why if own else ""
                found.append(split_reason(x, split, why, cells.rule(x).why, cells.grid))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be written: the module without calls, and what it asks for.

    `memo` has what was worked out of its operations, for other tasks of the same module, too.
    """

    source: Module
    shardings: ModuleShardings
    memo: OperationMemo = field(default_factory=OperationMemo)


def first_draft(task: Task) -> Draft:
    """Return the first draft that `cheapest` tries: what others cost is much like it."""
    return _draft(task, _cells(task, {}, halos=True), DraftFindings(), _POLICIES[0])


def cheapest(task: Task) -> Draft:
    """Return the draft of the least cost among those that are tried.

    Where tiles may exchange rows for windows, everything is tried without that too.
    """
    best = _cheapest(task, halos=True)
    if _has_halos(task):
        other = _cheapest(task, halos=False)
        best = other if other.cost < best.cost else best
    return best


def _has_halos(task: Task) -> bool:
    return any(
        factors_of(x).halos
        for computation in computation_post_order(task.source)
        for x in computation.instructions.values()
    )


def _cheapest(task: Task, *, halos: bool) -> Draft:
    best, first = _best_with(task, {}, halos=halos)
    if task.source.instruction_count > _MOST_INSTRUCTIONS:
        return best
    for number, tiling in _other_tilings(task, best):
        found, _ = _best_with(task, {number: tiling}, halos=halos, most=_HOPELESS * first)
        if found.cost < best.cost:
            best = found
    return best


def _best_with(
    task: Task, moved: Mapping[int, Tiling], *, halos: bool, most: float = math.inf
) -> tuple[Draft, float]:
    """Return the cheapest draft where some parameters are used in another tiling than they have.

    With it is what the first draft costs. That is the only one where it costs more than `most`:
    what is much dearer before anything is known of readers hardly ever becomes the cheapest.
    """
    cells = _cells(task, moved, halos=halos)
    best = first = _draft(task, cells, DraftFindings(), _POLICIES[0])
    if first.cost > most:
        return first, first.cost
    allowed = max(1, _EFFORT // task.source.instruction_count // len(_POLICIES))
    for policy in _POLICIES:
        findings = DraftFindings()
        for number in range(min(allowed, policy.passes)):
            is_known = number == 0 and policy is _POLICIES[0]
            draft = first if is_known else _draft(task, cells, findings, policy)
            if draft.cost < best.cost:
                best = draft
            if draft.findings == findings:
                break
            findings = draft.findings
    return best, first.cost


def _cells(task: Task, moved: Mapping[int, Tiling], *, halos: bool) -> ArrayCells:
    """Return the cells with all tilings that follow; parameters come first, in order of leaves."""
    shardings = task.shardings
    root = task.source.entry.root
    cells = cells_of(task.source.entry, shardings, halos=halos, memo=task.memo)
    for number, tiling in moved.items():
        cells.cells[number].tiling = tiling
        cells.cells[number].why = "costs less than as the parameter comes"
    for number, wish in zip(cells.numbers[root], shardings.results, strict=True):
        cell = cells.cells[number]
        if wish is not None and cell.tiling.is_replicated and all(cell.is_open):
            cells.wish(number, wish, "asked of the result")
    propagate(cells)
    return cells


def _other_tilings(task: Task, draft: Draft) -> Iterator[tuple[int, Tiling]]:
    """Yield other tilings of the parameters that the draft moves most, one dimension to another."""
    grid = task.shardings.grid
    entry = task.source.entry
    shapes = [leaf for p in entry.parameters for _, leaf in p.shape.leaves()]
    order = sorted([n for n, size in draft.moved.items() if size], key=lambda n: -draft.moved[n])
    for number in order[:_MOST_MOVED]:
        own = draft.parameters[number]
        for source, axes in enumerate(own.axes):
            for target in range(len(own.axes)):
                if source == target or not axes:
                    continue
                changed = list(own.axes)
                changed[source] = ()
                changed[target] = (*own.axes[target], *axes)
                tiling = replace(own, axes=tuple(changed))
                if tiling.divides(grid, shapes[number].dimensions):
                    yield number, tiling


def _draft(task: Task, cells: ArrayCells, findings: DraftFindings, policy: Policy) -> Draft:
    source, shardings = task.source, task.shardings
    walk = DecidingWalk(shardings, cells, findings, policy)
    tilings = _parameter_tilings(task, cells)
    given = []
    for parameter, own, wishes in zip(
        source.entry.parameters, tilings, shardings.parameters, strict=True
    ):
        leaves = walk.placed(arrays_of(parameter.shape), own)
        for leaf, tiling, wish in zip(leaves, own, wishes, strict=True):
            walk.exchanged(leaf.shape, wish, tiling)
        walk.keep(cells.numbers[parameter], leaves)
        given.append(leaves)
    found = walk.run(source.entry, given)
    wanted = []
    for number, leaf, wish in zip(
        cells.numbers[source.entry.root], found, shardings.results, strict=True
    ):
        tiling = cells.cells[number].wanted or leaf.tiling.whole()
        if wish is not None and leaf.shape.is_array:
            tiling = dividing(shardings.grid, wish.tiling, leaf.shape.dimensions)
        wanted.append(shardings.outward(wish, tiling))
        leaf.take(wanted[-1])
        walk.exchanged(leaf.shape, wish, wanted[-1])
    flat = [tiling for own in tilings for tiling in own]
    return Draft(
        cells,
        walk.splits,
        tuple(flat),
        tuple(wanted),
        tuple(walk.inspections),
        walk.sent.nbytes,
        walk.work,
        walk.findings(),
        {number: walk.moved_bytes(number) for number in range(len(flat))},
    )


def _parameter_tilings(task: Task, cells: ArrayCells) -> list[list[Tiling]]:
    """Return how the leaves of each parameter come: as asked for, else as is best."""
    grid = task.shardings.grid
    found = []
    for parameter, wishes in zip(
        task.source.entry.parameters, task.shardings.parameters, strict=True
    ):
        own = []
        for cell, wish in zip(cells.of(parameter), wishes, strict=True):
            asked = cell.tiling if wish is None else wish.tiling
            sizes = cell.shape.dimensions if cell.shape.is_array else ()
            own.append(task.shardings.outward(wish, dividing(grid, asked, sizes)))
        found.append(own)
    return found
