"""Certificates: a plan, the problem that it solves, and a bound with what proves it, as JSON.

`lowtide/certificate/checker.py` checks them; docs/certificates.md has the format of all kinds. Here
are those of kind "offsets", buffers in an arena, and "objects", tensors that share objects. All is
whole numbers from 0 on: steps count from the first one, and region 0 is the arena.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import Any, Final

import numpy as np

from lowtide.planning.plans import CliqueBound, DualBound, ObjectsAssignment, Packing
from lowtide.planning.problem import (
    FREE,
    PackingProblem,
    TensorUsageRecord,
    dense_times,
    live_profile,
)

SCHEMA: Final = "lowtide.certificate/2"

Document = dict[str, Any]
Evidence = dict[str, Any]

_MOST_WORK: Final = 2 * 10**8
"""Stretches times entries of a tree that the checker takes on."""
_PEAKS: Final = 16
"""How many of the steps with most live bytes are looked at, where alignments matter."""


def offsets_certificate(problem: PackingProblem, packing: Packing) -> Document:
    """Return the certificate of a packing, with the best bound that there is evidence for."""
    origin = int(problem.first.min(initial=0))
    unit = _unit(problem)
    candidates: list[tuple[int, Evidence]] = []
    if len(problem.item):
        candidates.append(_live_evidence(problem, origin))
    if not len(problem.region_bytes):
        candidates += _fixed_evidence(problem, origin)
    refutation = packing.refutation
    if refutation is not None and len(refutation.tree) * len(problem.item) <= _MOST_WORK:
        tree = [x - origin if isinstance(x, int) else list(x) for x in refutation.tree]
        candidates.append(_tree_evidence(refutation.height, tree))
    proved, evidence = max(candidates, key=lambda found: found[0], default=(0, {}))
    content, plan = packing_sections(problem, packing)
    return signed("offsets", content, plan, _up(proved, unit), evidence if proved else {})


def packing_sections(problem: PackingProblem, packing: Packing) -> tuple[Document, Document]:
    """Return the sections of a certificate with the buffers to pack, and with their places."""
    origin = int(problem.first.min(initial=0))
    content = {"buffers": _buffers(problem, origin), "regions": problem.region_bytes.tolist()}
    places = np.stack([packing.region + 1, packing.offset], axis=1).tolist()
    return content, {"places": places, "height": packing.arena_bytes}


def objects_certificate(
    records: Sequence[TensorUsageRecord],
    assignment: ObjectsAssignment,
    reallocation_graph: Sequence[Sequence[int]] | None = None,
) -> Document:
    """Return the certificate of tensors that share objects.

    Raises ValueError where sizes are extents, not bytes.
    """
    sizes = [_nbytes(number, record) for number, record in enumerate(records)]
    times = [(int(record.first_task), int(record.last_task)) for record in records]
    origin = min([first for first, _ in times], default=0)
    content = {
        "tensors": [
            [size, first - origin, last - origin]
            for size, (first, last) in zip(sizes, times, strict=True)
        ],
        "follow": _pairs(reallocation_graph),
    }
    plan = {
        "objects": [int(number) for number in assignment.object_ids],
        "sizes": [int(size) for size in assignment.object_sizes if not isinstance(size, tuple)],
        "total": int(assignment.total_size),
    }
    proved, evidence = _objects_evidence(assignment.evidence, sizes, times)
    return signed("objects", content, plan, _up(proved, max(1, gcd(*sizes))), evidence)


def evidence_name(document: Document) -> str | None:
    """Return what kind of evidence a certificate of a packing has, None where it has none."""
    evidence = document["evidence"]
    if not evidence:
        return None
    if "prices" in evidence:
        return "prices"
    return "live" if len(evidence["tree"]) == 1 else "refutation"


def certificate_text(document: Document) -> str:
    """Return a certificate as compact JSON, without a line feed."""
    return json.dumps(document, separators=(",", ":"))


def signed(kind: str, problem: Document, plan: Document, bound: int, evidence: object) -> Document:
    """Return a certificate of its parts, with the digest of the rest."""
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


def _buffers(problem: PackingProblem, origin: int) -> list[list[Any]]:
    """Return size, alignment, fixed place and stretches of each buffer.

    Stretches that overlap count as one.
    """
    stretches: list[list[list[int]]] = [[] for _ in range(len(problem))]
    order = np.lexsort((problem.last, problem.first, problem.item))
    columns = (problem.item[order], problem.first[order] - origin, problem.last[order] - origin)
    for item, first, last in zip(*[column.tolist() for column in columns], strict=True):
        own = stretches[item]
        if own and first <= own[-1][1]:
            own[-1][1] = max(own[-1][1], last)
        else:
            own.append([first, last])
    region, offset = (problem.region_of + 1).tolist(), problem.fixed_offset.tolist()
    fixed = [[] if y == FREE else [x, y] for x, y in zip(region, offset, strict=True)]
    rows = zip(problem.nbytes.tolist(), problem.alignment.tolist(), fixed, stretches, strict=True)
    return [list(row) for row in rows]


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


def _live_evidence(problem: PackingProblem, origin: int) -> tuple[int, Evidence]:
    """Return the most that the buffers live at a step need, and the step."""
    dense = dense_times(problem)
    proved, step = max([(_need(dense, step), -step) for step in _peaks(dense)])
    return _tree_evidence(proved - 1, [int(np.unique(problem.first)[-step]) - origin])


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


def _fixed_evidence(problem: PackingProblem, origin: int) -> list[tuple[int, Evidence]]:
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
    return [_tree_evidence(int(ends[highest]) - 1, [step - origin])]


def _tree_evidence(height: int, tree: list[Any]) -> tuple[int, Evidence]:
    return height + 1, {"height": height, "tree": tree}


# -- objects -----------------------------------------------------------------------------------


def _nbytes(number: int, record: TensorUsageRecord) -> int:
    if isinstance(record.size, tuple):
        raise ValueError(
            f"record {number}: size {record.size} has several extents; a certificate is for bytes"
        )
    return int(record.size)


def _pairs(graph: Sequence[Sequence[int]] | None) -> list[list[int]]:
    """Return the pairs of tensors that may follow each other in an object, either way round.

    No pairs at all stand for all pairs; a tensor with itself for none.
    """
    if graph is None:
        return []
    found = {(i, j): None for i, partners in enumerate(graph) for j in map(int, partners)}
    every = sorted(found | {(j, i): None for i, j in found})
    return [list(pair) for pair in every] or [[0, 0]]


def _objects_evidence(
    evidence: CliqueBound | DualBound | None, sizes: Sequence[int], times: Sequence[tuple[int, int]]
) -> tuple[int, Evidence]:
    """Return what the total is proved to be at least, and the evidence as a document."""
    if evidence is None:
        return 0, {}
    prices, rate = _prices(evidence, sizes, times)
    proved = -(-sum(prices) // rate)
    return proved, {"prices": prices, "rate": rate} if proved else {}


def _prices(
    evidence: CliqueBound | DualBound, sizes: Sequence[int], times: Sequence[tuple[int, int]]
) -> tuple[list[int], int]:
    """Return prices that prove a bound, and what they are divided by.

    For the k-th object of a clique there are k tensors of its size, or larger ones, at its task.
    Each of them pays for the part of its size above that of the next object: tensors of one object
    do not meet, so one at most is at each task, and pays for parts that it is larger than.
    """
    if isinstance(evidence, DualBound):
        return list(evidence.prices), evidence.denominator
    prices = [0] * len(sizes)
    lower = [*evidence.sizes[1:], 0]
    for count, (task, size, less) in enumerate(
        zip(evidence.tasks, evidence.sizes, lower, strict=True), 1
    ):
        here = [i for i, (first, last) in enumerate(times) if first <= task <= last]
        large = [i for i in here if sizes[i] >= size][:count]
        for i in large:
            prices[i] += size - less
    return prices, 1
