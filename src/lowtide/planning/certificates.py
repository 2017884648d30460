"""Certificates: a plan, the problem that it solves, and a bound with what proves it, as JSON.

`lowtide/certificate/checker.py` checks them. All is whole numbers, in columns: entry `i` of each
column is about buffer `i`. The sections of "lowtide.certificate/1", of kind `offsets`:

* problem: `size`, `alignment`; `fixed_in`, `fixed_at`: the region (-1: the arena) and the offset at
  which a buffer has to lie, or -1 and -1; the sizes of `regions`; `buffer`, `first`, `last`: the
  stretches of steps, both ends included, in which the buffers are live.
* plan: `region` (-1: the arena), `offset`, and `height`, the largest end in the arena.
* evidence: of kind `live` a `step`: what is live there needs the bound; or of kind `refutation` a
  `height`, `buffers` that have no plan so low (all where there are none), and the search tree that
  shows it, `closed`, as in `Refutation`.

Of kind `objects`:

* problem: `size`, `first`, `last`, both steps included; `restricted`, 1 where a tensor `after` may
  take over the object of another, `before`, only if there is such a pair, or 0.
* plan: the `object` of each tensor, the `size` of each object, and their `total`.
* evidence: of kind `clique` the columns `step` and `size`, as in `CliqueBound`; or of kind `dual`
  the column `price`, and their `denominator`, as in `DualBound`.

The `bound` is what the evidence proves, rounded up to a multiple of what divides every height, or
total, that can be least: 0 where the evidence is null. `sha256` is the digest of the rest, as
compact JSON with sorted names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import Any, Final

import numpy as np

from lowtide.planning.plans import (
    CliqueBound,
    DualBound,
    ObjectsAssignment,
    Packing,
    Refutation,
)
from lowtide.planning.problem import (
    ARENA,
    FREE,
    PackingProblem,
    TensorUsageRecord,
    dense_times,
    live_profile,
)

SCHEMA: Final = "lowtide.certificate/1"

Document = dict[str, Any]

_MOST_WORK: Final = 2 * 10**8
"""Buffers and stretches, times entries of a search tree, that the checker takes on."""
_PEAKS: Final = 16
"""How many of the steps with most live bytes are looked at, where alignments matter."""


def offsets_certificate(problem: PackingProblem, packing: Packing) -> Document:
    """Return the certificate of a packing, with the best bound that there is evidence for."""
    rows = _rows(problem)
    unit = _unit(problem)
    candidates: list[tuple[int, Document]] = []
    if len(problem.item):
        candidates.append(_live_evidence(problem))
    if not len(problem.region_bytes):
        candidates += _fixed_evidence(problem)
    if packing.refutation is not None and _can_be_checked(problem, packing.refutation):
        candidates.append(_refutation_evidence(packing.refutation))
    proved, evidence = max(candidates, key=lambda found: found[0], default=(0, None))
    fixed = problem.fixed_offset != FREE
    content = {
        "size": problem.nbytes.tolist(),
        "alignment": problem.alignment.tolist(),
        "fixed_in": np.where(fixed, problem.region_of, ARENA).tolist(),
        "fixed_at": problem.fixed_offset.tolist(),
        "regions": problem.region_bytes.tolist(),
        "buffer": rows[0],
        "first": rows[1],
        "last": rows[2],
    }
    plan = {
        "region": packing.region.tolist(),
        "offset": packing.offset.tolist(),
        "height": packing.arena_bytes,
    }
    return _signed("offsets", content, plan, _up(proved, unit), evidence)


def objects_certificate(
    records: Sequence[TensorUsageRecord],
    assignment: ObjectsAssignment,
    reallocation_graph: Sequence[Sequence[int]] | None = None,
) -> Document:
    """Return the certificate of tensors that share objects.

    Raises ValueError where sizes are extents, not bytes.
    """
    sizes = [_nbytes(number, record) for number, record in enumerate(records)]
    pairs = _pairs(reallocation_graph or ())
    content = {
        "size": sizes,
        "first": [int(record.first_task) for record in records],
        "last": [int(record.last_task) for record in records],
        "restricted": int(reallocation_graph is not None),
        "before": [before for before, _ in pairs],
        "after": [after for _, after in pairs],
    }
    plan = {
        "object": [int(number) for number in assignment.object_ids],
        "size": [int(size) for size in assignment.object_sizes if not isinstance(size, tuple)],
        "total": int(assignment.total_size),
    }
    proved, evidence = _objects_evidence(assignment.evidence)
    return _signed("objects", content, plan, _up(proved, max(1, gcd(*sizes))), evidence)


def certificate_text(document: Document) -> str:
    """Return a certificate as compact JSON, without a line feed."""
    return json.dumps(document, separators=(",", ":"))


def _signed(
    kind: str, problem: Document, plan: Document, bound: int, evidence: Document | None
) -> Document:
    document = {
        "schema": SCHEMA,
        "kind": kind,
        "problem": problem,
        "plan": plan,
        "bound": bound,
        "evidence": evidence,
    }
    content = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return {**document, "sha256": hashlib.sha256(content.encode()).hexdigest()}


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


# -- offsets -----------------------------------------------------------------------------------


def _rows(problem: PackingProblem) -> tuple[list[int], list[int], list[int]]:
    """Return (buffer, first, last) of the stretches in order, those that overlap as one."""
    order = np.lexsort((problem.last, problem.first, problem.item))
    found: list[tuple[int, int, int]] = []
    columns = (problem.item[order], problem.first[order], problem.last[order])
    for item, first, last in zip(*[column.tolist() for column in columns], strict=True):
        if found and found[-1][0] == item and first <= found[-1][2]:
            _, begin, end = found.pop()
            found.append((item, begin, max(end, last)))
        else:
            found.append((item, first, last))
    return [x[0] for x in found], [x[1] for x in found], [x[2] for x in found]


def _unit(problem: PackingProblem) -> int:
    """Return what divides the height of all packings that are pushed down as far as they go.

    Buffers lie where they are fixed, or end to end, rounded up to their alignment. An alignment
    that divides the unit changes nothing.
    """
    fixed = problem.fixed_offset[problem.fixed_offset != FREE]
    unit = gcd(int(np.gcd.reduce(problem.nbytes)), int(np.gcd.reduce(fixed)))
    alignments = np.unique(problem.alignment[problem.nbytes > 0]).tolist()
    while unit and (odd := [a for a in alignments if unit % a and a % unit]):
        unit = gcd(unit, *odd)
    return max(1, unit)


def _live_evidence(problem: PackingProblem) -> tuple[int, Document]:
    """Return the most that the buffers live at a step need, and the step."""
    dense = dense_times(problem)
    proved, step = max([(_need(dense, step), -step) for step in _peaks(dense)])
    begins = np.unique(problem.first)
    return proved, {"kind": "live", "step": int(begins[-step])}


def _peaks(dense: PackingProblem) -> list[int]:
    """Return steps with the most live bytes, as they are and with sizes rounded up."""
    profile = live_profile(dense)
    rounded = -(-dense.nbytes // dense.alignment) * dense.alignment
    if len(dense.region_bytes) or (rounded == dense.nbytes).all():
        return [int(profile.argmax())]
    found = [profile, live_profile(replace(dense, nbytes=rounded))]
    steps = [np.argsort(-live, kind="stable")[:_PEAKS] for live in found]
    return [int(step) for step in np.unique(np.concatenate(steps))]


def _need(dense: PackingProblem, step: int) -> int:
    """Return how high the buffers live at a step are together at least, less the regions.

    Without regions, all but the topmost take their size rounded up to what divides the alignments
    of all.
    """
    items = np.unique(dense.item[(dense.first <= step) & (dense.last >= step)])
    items = items[dense.nbytes[items] > 0]
    sizes: list[int] = dense.nbytes[items].tolist()
    if len(dense.region_bytes):
        return max(0, sum(sizes) - int(dense.region_bytes.sum()))
    unit = int(np.gcd.reduce(dense.alignment[items]))
    rounded = [_up(size, unit) for size in sizes]
    return sum(rounded) - max([x - y for x, y in zip(rounded, sizes, strict=True)], default=0)


def _fixed_evidence(problem: PackingProblem) -> list[tuple[int, Document]]:
    """Return the bound by the end of a buffer that is fixed, where there is one.

    It does not fit below by itself, at whatever step it is live.
    """
    fixed = (problem.fixed_offset != FREE) & (problem.nbytes > 0)
    fixed &= np.isin(np.arange(len(problem)), problem.item)
    if not fixed.any():
        return []
    ends = np.where(fixed, problem.fixed_offset + problem.nbytes, 0)
    highest = int(ends.argmax())
    step = int(problem.first[problem.item == highest][0])
    refutation = Refutation(int(ends[highest]) - 1, (step,), (highest,))
    return [_refutation_evidence(refutation)] if step >= 0 else []


def _refutation_evidence(refutation: Refutation) -> tuple[int, Document]:
    evidence = {
        "kind": "refutation",
        "height": refutation.height,
        "buffers": list(refutation.buffers),
        "closed": list(refutation.closed),
    }
    return refutation.height + 1, evidence


def _can_be_checked(problem: PackingProblem, refutation: Refutation) -> bool:
    kept = refutation.buffers or range(len(problem))
    rows = int(np.isin(problem.item, np.array(kept, np.int64)).sum())
    return (len(kept) + rows) * (len(kept) + len(refutation.closed)) <= _MOST_WORK


# -- objects -----------------------------------------------------------------------------------


def _nbytes(number: int, record: TensorUsageRecord) -> int:
    if isinstance(record.size, tuple):
        raise ValueError(
            f"record {number}: size {record.size} has several extents; a certificate is for bytes"
        )
    return int(record.size)


def _pairs(graph: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the pairs of tensors that may follow each other in an object, either way round."""
    found = {(i, j): None for i, partners in enumerate(graph) for j in map(int, partners)}
    return sorted(found | {(j, i): None for i, j in found})


def _objects_evidence(evidence: CliqueBound | DualBound | None) -> tuple[int, Document | None]:
    """Return what the total is proved to be at least, and the evidence as a document."""
    if evidence is None:
        return 0, None
    if isinstance(evidence, CliqueBound):
        columns = {"step": list(evidence.tasks), "size": list(evidence.sizes)}
        return sum(evidence.sizes), {"kind": "clique", **columns}
    prices = {"price": list(evidence.prices), "denominator": evidence.denominator}
    return -(-sum(evidence.prices) // evidence.denominator), {"kind": "dual", **prices}
