"""Certificates to begin with, and signatures for what is made of them."""

import hashlib
import json
import random
from dataclasses import replace

from lowtide.certificate import check
from lowtide.certificate.checker import _Packing, _Search
from lowtide.planning.certificates import objects_certificate, offsets_certificate
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
    document["problem"].update(regions=[12], fixed_in=[-1, 0, -1, -1])
    document["plan"].update(region=[0, 0, -1, -1], offset=[0, 6, 0, 6], height=8)
    document["bound"] = 8
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


def refuted():
    """A packing above the most live bytes, which a search tree of some size shows to be lowest."""
    for seed in range(10_000):
        problem = random_problem(random.Random(seed), fixed=False, scales=(1,))
        document = unproved(problem)
        height = document["bound"]
        proofs = []
        while (found := tree_of(document, height))[0] is not None:
            proofs.append(Refutation(height, tuple(found[0])))
            height += 1
        if proofs and 20 < len(proofs[-1].closed) < 60:
            offsets = [found[1].get(i, 0) for i in range(len(problem))]
            packing = replace(arena_packing(problem, offsets), refutation=proofs[-1])
            return offsets_certificate(problem, packing)
    raise AssertionError("no instance is hard")


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


def tree_of(document, height, draw=None):
    """The entries of a complete search tree, or None and the places of a packing it found.

    With `draw`, a node is now and then about one part of what is left; then a packing may be one of
    that part only.
    """
    packing = _Packing(document["problem"])
    kept = [i for i, size in enumerate(packing.sizes) if size]
    search = _Search(packing, height, kept, 0)
    steps = sorted({first for _, first, _ in packing.rows})
    entries, todo = [], [(search.root, ())]
    while todo:
        node, placed = todo.pop()
        if not any(node.present):
            return None, {kept[i]: offset for offset, i in placed}
        if draw and draw.random() < 0.5:
            step = draw.choice(steps)
            part = search.connected(node, step)
            if any(part.present):
                entries.append(-2 - step)
                node = part
        step = next((x for x in steps if search.reach(node, x) > height), None)
        if step is not None:
            entries.append(step)
            continue
        entries.append(-1)
        children = [search.child(node, i) for i in reversed(search.children(node))]
        todo += [(child, (*placed, child.last)) for child in children]
    return entries, {}
