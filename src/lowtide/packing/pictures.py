"""Pictures of packings and of plans of modules."""

from __future__ import annotations

import numpy as np

from lowtide.ir import LowtideError
from lowtide.ir.buffer import AllocationKind, AssignedValue, BufferAssignment
from lowtide.packing.named import NamedProblem, SolvedPacking
from lowtide.planning import ARENA
from lowtide.report.packing_picture import PackingPicture, live_steps
from lowtide.report.peak_table import place_text
from lowtide.report.plan_document import value_names


def packing_picture(named: NamedProblem, solved: SolvedPacking) -> PackingPicture:
    """Return the picture of a packing: what lies in the arena."""
    problem, packing = named.problem, solved.assignment.packing
    chosen = np.flatnonzero(packing.region == ARENA)
    number = np.full(len(problem), -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    rows = number[problem.item] >= 0
    item, first, last = number[problem.item[rows]], problem.first[rows], problem.last[rows]
    nbytes = problem.nbytes[chosen]
    remarks = list(named.notes)
    if len(chosen) < len(problem):
        remarks.append(f"{len(problem) - len(chosen):,} buffers lie in arguments, not here.")
    return PackingPicture(
        f"{named.title}, {solved.kind}:{solved.strategy}",
        tuple([named.names[i] for i in chosen.tolist()]),
        tuple([named.details[i] for i in chosen.tolist()]) if named.details else (),
        packing.offset[chosen],
        nbytes,
        item,
        first,
        last,
        solved.height,
        solved.assignment.lower_bound,
        live_steps(nbytes[item], first, last),
        tuple(remarks),
    )


def plan_picture(title: str, assignment: BufferAssignment, bound: int) -> PackingPicture:
    """Return the picture of the largest arena of a module's plan: a rectangle for each value.

    `bound` is what no arena can do without. Raises LowtideError for a plan without an arena, and
    for one that does not say when values are live.
    """
    arenas = [x for x in assignment.allocations if x.kind is AllocationKind.ARENA]
    if not arenas:
        raise LowtideError(f"{title} needs no arena, so there is nothing to draw")
    arena = max(arenas, key=lambda x: (x.nbytes, -x.index))
    names = value_names(assignment)
    inside = [i for i, x in enumerate(assignment.values) if x.place.allocation == arena.index]
    values = [assignment.values[i] for i in inside]
    stretches = np.array([_live(value) for value in values], np.int64).reshape(-1, 2)
    remarks = []
    if len(arenas) > 1:
        remarks.append(f"{len(arenas) - 1} smaller arenas of other memory spaces are not drawn.")
    return PackingPicture(
        title,
        tuple([names[i] for i in inside]),
        tuple([value_details(value) for value in values]),
        np.array([x.place.offset for x in values], np.int64),
        np.array([x.place.nbytes for x in values], np.int64),
        np.arange(len(values), dtype=np.int64),
        stretches[:, 0],
        stretches[:, 1],
        arena.nbytes,
        min(bound, arena.nbytes) if len(arenas) == 1 else 0,
        _buffer_profile(values),
        tuple(remarks),
    )


def value_details(value: AssignedValue) -> str:
    """Return the shape of a value, and the line of the user's program that it comes from."""
    maker = value.instruction
    text = f"{maker.opcode} {maker.shape.at(value.index).text(layout=False)}"
    if maker.source is None or not maker.source.file:
        return text
    return f"{text}, {place_text(maker.source)}"


def _live(value: AssignedValue) -> tuple[int, int]:
    if value.live is None:
        raise LowtideError("the plan does not say when values are live, so it cannot be drawn")
    return value.live


def _buffer_profile(values: list[AssignedValue]) -> tuple[np.ndarray, np.ndarray]:
    """What is live, with values that replace one another in a buffer counted once at each step."""
    rows: list[tuple[int, int, int]] = []
    order = sorted(values, key=lambda x: (x.buffer, _live(x)))
    buffer = None
    for value in order:
        first, last = _live(value)
        if value.buffer == buffer and first <= rows[-1][2]:
            size, begin, end = rows[-1]
            rows[-1] = (max(size, value.place.nbytes), begin, max(end, last))
        else:
            rows.append((value.place.nbytes, first, last))
        buffer = value.buffer
    table = np.array(rows, np.int64).reshape(-1, 3)
    return live_steps(table[:, 0], table[:, 1], table[:, 2])
