"""Certificates to begin with, and signatures for what is made of them."""

import hashlib
import json
import random
from dataclasses import replace
from functools import cache

import numpy as np

from lowtide.certificate import check
from lowtide.planning import place
from lowtide.planning.certificates import objects_certificate, offsets_certificate
from lowtide.planning.exact.disjunctions import Disjunctions
from lowtide.planning.exact.instance import instance_of
from lowtide.planning.exact.items import Space, items_of
from lowtide.planning.plans import (
    CliqueBound,
    DualBound,
    ObjectsAssignment,
    Refutation,
    arena_packing,
)
from lowtide.planning.problem import TensorUsageRecord, packing_problem


def compact(document) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def signed(document):
    """The document with a digest that fits it."""
    content = {name: value for name, value in document.items() if name != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**document, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def answer(document):
    return check(compact(document))


def copied(document):
    return json.loads(json.dumps(document))


def stacked():
    """Three buffers at their most live step: 0 to 2, 4 to 8, 8 to 11; one more over the first."""
    records = [(2, 0, 2), (4, 1, 3), (3, 2, 2), (2, 3, 5)]
    problem = packing_problem(
        [TensorUsageRecord(*x) for x in records], [1, 4, 1, 1], gaps={3: [(4, 4)]}
    )
    return offsets_certificate(problem, arena_packing(problem, [4, 0, 6, 4]))


def in_regions():
    """Two buffers in a region of 12 bytes, of which one is fixed there, and two in the arena."""
    records = [(6, 0, 3), (6, 0, 3), (6, 0, 3), (2, 0, 3)]
    problem = packing_problem([TensorUsageRecord(*x) for x in records], fixed={1: 6})
    document = offsets_certificate(problem, arena_packing(problem, [0, 6, 12, 18]))
    document["problem"].update(regions=[12])
    document["problem"]["buffers"][1][2] = [1, 6]
    document["plan"].update(places=[[1, 0], [1, 6], [0, 0], [0, 6]], height=8)
    document["bound"], document["evidence"]["height"] = 8, 7
    return signed(document)


def random_problem(draw, count=6, *, fixed=True, scales=(1, 1, 6)):
    """Buffers of which some have gaps, an alignment or a fixed place that leaves room for all."""
    records, gaps, alignments = [], {}, []
    scale = draw.choice(scales)
    for i in range(count):
        first = draw.randrange(5)
        last = first + draw.randrange(4)
        records.append(TensorUsageRecord(scale * draw.randrange(7), first, last))
        alignments.append(draw.choice((1, 1, 2, 4)))
        if last - first > 1 and draw.random() < 0.3:
            gaps[i] = [(first + 1, last - 1)]
    places = {draw.randrange(count): 4 * draw.randrange(4)} if fixed and draw.random() < 0.4 else {}
    return packing_problem(records, alignments, fixed=places, gaps=gaps)


def unproved(problem):
    """A certificate whose plan is nonsense, for what it says of the problem."""
    return offsets_certificate(problem, arena_packing(problem, [0] * len(problem)))


def refutation_of(problem, height):
    """A tree which shows that a height does not do, None where there is none."""
    items = items_of(problem, Space.of(problem))
    if not len(items):
        return None
    chosen = np.arange(len(items))
    rows = {int(i): [] for i in items.numbers}
    for i, first, last in zip(problem.item, problem.first, problem.last, strict=True):
        if int(i) in rows:
            rows[int(i)].append((int(first), int(last)))
    lives = [tuple(sorted(rows[int(i)])) for i in items.numbers]
    instance = instance_of(items, chosen)
    units = [_unit_at(problem, step) for step in instance.steps]
    search = Disjunctions(instance, lives, units, height, 20_000)
    if not search.search():
        return None
    names = items.numbers.tolist()
    tree = [x if isinstance(x, int) else (names[x[0]], names[x[1]]) for x in search.tree]
    return Refutation(height, tuple(tree))


def _unit_at(problem, step):
    here = problem.item[(problem.first <= step) & (problem.last >= step)]
    return int(np.gcd.reduce(problem.alignment[here[problem.nbytes[here] > 0]]))


@cache
def _refuted():
    for seed in range(10_000):
        problem = random_problem(random.Random(seed), fixed=False, scales=(1,))
        height = unproved(problem)["bound"]
        proof = None
        while (found := refutation_of(problem, height)) is not None:
            proof, height = found, height + 1
        if proof is not None and 10 < len(proof.tree) < 60:
            packing = place(problem, "exact").packing
            return offsets_certificate(problem, replace(packing, refutation=proof))
    raise AssertionError("no instance is hard")


def refuted():
    """A packing above the most live bytes, which a tree of some size shows to be lowest."""
    return copied(_refuted())


def shared(evidence=None, graph=None):
    """Four tensors in two objects, 7 bytes."""
    records = [(4, 0, 1), (3, 1, 2), (2, 2, 3), (3, 4, 4)]
    records = [TensorUsageRecord(*x) for x in records]
    evidence = evidence or CliqueBound((1, 1), (4, 3))
    plan = ObjectsAssignment((0, 1, 0, 1), (4, 3), 7, evidence)
    return objects_certificate(records, plan, graph)


def priced():
    """The same, with a price for each tensor: those of 4 and 3 bytes that live together."""
    return shared(DualBound((8, 6, 0, 0), 2))
