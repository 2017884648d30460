"""A packing on the screen, and as JSON."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.packing.named import NamedProblem, SolvedPacking
from lowtide.planning import ARENA, StopReason, max_live
from lowtide.report.drawing import Paint, elide, elide_start
from lowtide.search.deadline import ended_by

_STOPPED: Final = {
    StopReason.LIMIT: "The search ended at the limit of its effort; --effort proof looks further.",
    StopReason.DEADLINE: "The search ended at its deadline.",
    StopReason.INTERRUPT: "The search was interrupted; this is the best that it had.",
}

_ENDED_BY: Final = {StopReason.DEADLINE: "a deadline", StopReason.INTERRUPT: "Ctrl-C"}


def packing_document(
    named: NamedProblem, solved: SolvedPacking, capacity: int | None
) -> dict[str, object]:
    """Return the document of --json; `seconds` is all that varies from run to run."""
    document: dict[str, object] = {
        "schema": "lowtide.packing/1",
        "problem": named.title,
        "buffers": len(named.problem),
        "strategy": f"{solved.kind}:{solved.strategy}",
        "height": solved.height,
        "lower_bound": solved.lower_bound,
        "optimal": solved.optimal,
        "evidence": solved.evidence,
        "certified_bound": solved.certified_bound,
        "stopped": solved.stopped.value,
        "live_bytes": max_live(named.problem),
        "capacity": capacity,
        "feasible": _feasible(solved, capacity),
        "attempts": [{"strategy": x.strategy, "height": x.height} for x in solved.attempts],
        "simplified": list(solved.changes),
        "caveats": _caveats(named, solved),
        "offsets": list(solved.assignment.offsets),
    }
    if len(named.problem.region_bytes):
        document["regions"] = solved.assignment.packing.region.tolist()
    if solved.objects is not None:
        document["object_ids"] = list(solved.objects.object_ids)
        document["object_sizes"] = list(solved.objects.object_sizes)
    document["seconds"] = {x.strategy: x.seconds for x in solved.attempts}
    return document


def _caveats(named: NamedProblem, solved: SolvedPacking) -> list[str]:
    found = [*named.notes]
    if solved.remark:
        found.append(solved.remark)
    if solved.stopped in _ENDED_BY:
        found.append(ended_by(_ENDED_BY[solved.stopped]))
    return found


def _feasible(solved: SolvedPacking, capacity: int | None) -> bool | None:
    """Whether a packing of that size exists; None where that is not known, or not asked."""
    if capacity is None:
        return None
    if solved.height <= capacity:
        return True
    return False if solved.assignment.lower_bound > capacity else None


# -- the screen --------------------------------------------------------------------------------


def packing_screen(
    named: NamedProblem, solved: SolvedPacking, limit: int, width: int, *, color: bool
) -> list[str]:
    """Return what the packing takes, how good that is, and its largest buffers."""
    paint = Paint(color=color)
    count = f"   {len(named.problem):,} buffers"
    what = "objects of" if solved.kind == "objects" else "needs"
    need = f"{what} {solved.height:,} bytes"
    lines = [
        paint("title", elide(printable(named.title), width - len(count))) + paint("dim", count),
        f"{paint('title', need)}; {_proof(solved)}",
        "",
        _ladder(named, solved, paint),
        f"  {_attempts(solved)}",
    ]
    if solved.stopped in _STOPPED and not solved.optimal:
        lines.append(f"  {_STOPPED[solved.stopped]}")
    if solved.remark:
        lines.append(f"  {solved.remark}")
    return [*lines, "", *_table(named, solved, limit, width, paint)]


def _proof(solved: SolvedPacking) -> str:
    word = "objects" if solved.kind == "objects" else "offsets"
    if solved.optimal:
        return f"no {word} need less"
    if not solved.lower_bound:
        return "the least possible is not known"
    return f"no {word} need less than {solved.lower_bound:,}"


def _ladder(named: NamedProblem, solved: SolvedPacking, paint: Paint) -> str:
    live, bound = max_live(named.problem), solved.lower_bound
    parts = [f"live {live:,}", f"bound {bound:,}", f"height {solved.height:,}"]
    signs = [_sign(live, bound), _sign(bound, solved.height)]
    judgement = "optimal" if solved.optimal else _above(solved.height, bound)
    text = f"  {parts[0]}  {signs[0]}  {parts[1]}  {signs[1]}  {parts[2]}"
    return f"{text}     {paint('good' if solved.optimal else 'warn', judgement)}"


def _sign(low: int, high: int) -> str:
    return "=" if low == high else "<="


def _above(height: int, bound: int) -> str:
    if not bound:
        return "unproven"
    return f"+{max(0.01, 100 * (height - bound) / bound):.2f}% at most"


def _attempts(solved: SolvedPacking) -> str:
    """What was tried, and what the bound rests on."""
    tried = [f"{x.strategy} {x.height:,} in {x.seconds:.2f} s" for x in solved.attempts]
    return ", ".join(tried)


def _table(
    named: NamedProblem, solved: SolvedPacking, limit: int, width: int, paint: Paint
) -> list[str]:
    """The largest buffers and where they lie."""
    problem = named.problem
    if not len(problem):
        return []
    first, last = problem.spans()
    offset = solved.assignment.packing.offset
    inside = np.flatnonzero(solved.assignment.packing.region == ARENA)
    order = inside[np.lexsort((inside, offset[inside], -problem.nbytes[inside]))][:limit].tolist()
    rows = [("offset", "bytes", "first", "last", "buffer")]
    rows += [
        (
            f"{offset[i]:,}",
            f"{problem.nbytes[i]:,}",
            f"{first[i]:,}",
            f"{last[i]:,}",
            named.names[i],
        )
        for i in order
    ]
    widths = [max([len(row[k]) for row in rows]) for k in range(4)]
    room = width - sum(widths) - 8
    lines = []
    for row in rows:
        figures = "  ".join([f"{row[k]:>{widths[k]}}" for k in range(4)])
        lines.append(f"{figures}  {elide_start(printable(row[4]), room)}")
    lines[0] = paint("dim", lines[0])
    if len(inside) > limit:
        lines.append(paint("dim", f"and {len(inside) - limit:,} more; --json lists all offsets"))
    return lines


def printable(name: str) -> str:
    """Return a name without characters that a terminal takes for something else."""
    return "".join([x if x.isprintable() else "?" for x in name])
