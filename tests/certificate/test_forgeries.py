"""Certificates that claim what is not so, each with a digest that fits: all are rejected."""

from itertools import chain

import pytest
from tests.certificate.cases import (
    answer,
    copied,
    in_regions,
    priced,
    refuted,
    shared,
    signed,
    stacked,
)

from lowtide.certificate import OPTIMAL, REJECTED


def put(section, **columns):
    """A change of some fields of a section."""

    def change(document):
        document[section].update(columns)

    return change


def entry(section, field, *path):
    """A change of one number, the last of `path`, which the others lead to."""

    def change(document):
        *steps, last, value = path
        owner = document[section][field]
        for step in steps:
            owner = owner[step]
        owner[last] = value

    return change


def both(*changes):
    def change(document):
        for each in changes:
            each(document)

    return change


def top(**fields):
    def change(document):
        document.update(fields)

    return change


def without(section, field):
    def change(document):
        del document[section][field]

    return change


def evidence(**fields):
    return top(evidence=fields)


def places(*offsets, height=9):
    return put("plan", places=[[0, offset] for offset in offsets], height=height)


def grown(document):
    """The tree of a height that does not do, said to be that of one that does."""
    document["evidence"]["height"] += 1
    document["bound"] += 1


def unplaced(document):
    """A tree that ends one entry early."""
    document["evidence"]["tree"].pop()


def opened(document):
    """A tree of the first step that it has."""
    tree = document["evidence"]["tree"]
    document["evidence"]["tree"] = [next(x for x in tree if isinstance(x, int))]


def longer(document):
    document["evidence"]["tree"].append(0)


def restricted():
    return shared(graph=[[2], [3], [0], [1]])


PLANS = {
    "a height that is not reached": (stacked, put("plan", height=8), "9 is what the buffers reach"),
    "a height that is exceeded": (
        stacked, both(put("plan", height=10), top(bound=8)), "9 is what the buffers reach",
    ),
    "two buffers at one place": (stacked, places(0, 0, 6, 4), "buffers 0 and 1 overlap"),
    "two buffers that overlap by a byte": (
        stacked, places(4, 0, 5, 4, height=8), "buffers 0 and 2 overlap at step 2",
    ),
    "an overlap with what lies above": (
        stacked, places(8, 0, 6, 4, height=10), "buffers 2 and 0 overlap at step 2",
    ),
    "an overlap behind a gap": (stacked, places(4, 0, 6, 2), "buffers 1 and 3 overlap at step 3"),
    "an offset that is not aligned": (stacked, places(0, 2, 6, 0), "buffer 1"),
    "an offset below 0": (stacked, places(4, -4, 6, 4), "unusual JSON"),
    "an offset in no region": (stacked, entry("plan", "places", 2, 0, 1), "malformed, IndexError"),
    "a buffer that reaches out of its region": (
        in_regions, put("plan", places=[[1, 0], [1, 6], [1, 8], [0, 6]]),
        "buffer 2: not within region 1",
    ),
    "an overlap in a region": (
        in_regions, entry("plan", "places", 0, 1, 6), "buffers 0 and 1 overlap",
    ),
    "a buffer that is not where it is fixed": (
        in_regions, entry("plan", "places", 1, 1, 0), "not where it is fixed",
    ),
    "a buffer fixed in a region that lies in the arena": (
        in_regions,
        put("plan", places=[[1, 0], [0, 6], [0, 12], [0, 18]], height=20),
        "not where it is fixed",
    ),
    "a larger buffer": (
        stacked, entry("problem", "buffers", 2, 0, 4), "10 is what the buffers reach",
    ),
    "a stretch that ends before it begins": (
        stacked, entry("problem", "buffers", 0, 3, 0, [2, 1]), "buffer 0: its stretches",
    ),
    "a stretch that is no pair": (
        stacked, entry("problem", "buffers", 0, 3, 0, [2]), "not enough values to unpack",
    ),
    "a longer stretch": (
        stacked, entry("problem", "buffers", 0, 3, 0, 1, 3), "buffers 0 and 3 overlap",
    ),
    "an alignment of 0": (stacked, entry("problem", "buffers", 0, 1, 0), "malformed, ZeroDivision"),
    "a negative size": (stacked, entry("problem", "buffers", 0, 0, -2), "unusual JSON"),
    "two tensors in one object at once": (
        shared, put("plan", objects=[0, 0, 1, 1]), "buffers 0 and 1 overlap",
    ),
    "an object smaller than a tensor": (
        shared, put("plan", sizes=[3, 3], total=6), "buffer 0: not within region 1",
    ),
    "an object that there is not": (
        shared, entry("plan", "objects", 1, 2), "malformed, IndexError",
    ),
    "another total": (shared, put("plan", total=6), "7 is the sum of sizes"),
    "a tensor that ends before it begins": (
        shared, entry("problem", "tensors", 1, 2, 0), "buffer 1: its stretches",
    ),
    "a tensor that must not follow another one": (
        restricted, put("plan", objects=[0, 1, 0, 0]), "tensor 3 must not follow 2",
    ),
    "a graph of no pairs": (restricted, put("problem", follow=[[0, 0]]), "must not follow"),
}  # fmt: skip

BOUNDS = {
    "a bound without evidence": (stacked, top(evidence={}), "0 is what is proved"),
    "a bound above what is proved": (stacked, top(bound=10), "9 is what is proved"),
    "a bound below what is proved": (stacked, top(bound=8), "9 is what is proved"),
    "a step with less": (stacked, evidence(height=8, tree=[0]), "tree[0]: there is room"),
    "a step with nothing": (stacked, evidence(height=8, tree=[99]), "tree[0]: there is room"),
    "a height with room": (stacked, evidence(height=9, tree=[2]), "tree[0]: there is room"),
    "a region whose bytes are forgotten": (
        in_regions, both(put("evidence", height=19), top(bound=20)), "there is room",
    ),
    "a stretch that counts twice": (
        stacked, entry("problem", "buffers", 0, 3, [[0, 2], [1, 2]]), "buffer 0: its stretches",
    ),
    "no tree": (refuted, put("evidence", tree=[]), "0 entries leave something to try"),
    "a tree of a pair": (refuted, put("evidence", tree=[[0, 1]]), "tree"),
    "a tree without its last entry": (refuted, unplaced, "entries leave something to try"),
    "a tree with one entry more": (refuted, longer, "malformed, IndexError"),
    "a tree of one step": (refuted, opened, "tree[0]: there is room"),
    "a tree of a lower height": (refuted, grown, "there is room"),
    "a pair of one buffer": (refuted, put("evidence", tree=[[1, 1], 0, 0]), "a pair is of two"),
    "buffers that never meet": (
        stacked, put("evidence", tree=[[0, 3], 2, 2]), "need not lie apart",
    ),
    "a price above a tensor's size": (
        priced, evidence(prices=[10, 6, 0, 0], rate=2), "in 4 bytes",
    ),
    "prices of tensors that fit one object": (
        priced, evidence(prices=[8, 6, 2, 0], rate=2), "tensors cost more",
    ),
    "prices of tensors one after the other": (
        priced, evidence(prices=[4, 6, 0, 1], rate=2), "in 3 bytes",
    ),
    "a smaller rate": (priced, evidence(prices=[8, 6, 0, 0], rate=1), "tensors cost more"),
    "no rate": (priced, evidence(prices=[8, 6, 0, 0], rate=0), "tensors cost more"),
    "a negative price": (priced, evidence(prices=[10, 6, -2, 0], rate=2), "unusual JSON"),
    "too few prices": (priced, evidence(prices=[8, 6], rate=2), "shorter than"),
    "too many prices": (priced, evidence(prices=[8, 6, 0, 0, 9], rate=2), "longer than"),
    "a bound below the prices": (priced, top(bound=6), "7 is what is proved"),
}  # fmt: skip

SHAPES = {
    "another schema": (stacked, top(schema="lowtide.certificate/1"), "schema"),
    "another kind": (stacked, top(kind="objects"), "expected an object with the fields tensors"),
    "an unknown kind": (stacked, top(kind="orders"), "kind: expected one of offsets, objects"),
    "a kind that is a list": (stacked, top(kind=[]), "kind: expected one of offsets, objects"),
    "a field too many": (stacked, top(note=1), "expected an object with the fields"),
    "a field too many in the problem": (stacked, put("problem", note=[]), "fields buffers"),
    "a field too many in the plan": (stacked, put("plan", note=0), "fields places"),
    "a field too many in the evidence": (stacked, put("evidence", note=0), "fields height"),
    "a field too few in the problem": (stacked, without("problem", "buffers"), "fields buffers"),
    "a field too few in the evidence": (stacked, without("evidence", "tree"), "fields height"),
    "evidence of objects": (stacked, evidence(prices=[], rate=1), "fields height"),
    "evidence that is a list": (stacked, top(evidence=[1]), "fields height"),
    "evidence that is a flag": (stacked, top(evidence=False), "unusual JSON"),
    "a problem that is null": (stacked, top(problem=None), "unusual JSON"),
    "a plan that is a list": (stacked, top(plan=[]), "fields places"),
    "a bound that is a flag": (stacked, top(bound=True), "unusual JSON"),
    "a bound that is text": (stacked, top(bound="9"), "9 is claimed, 9 is what is proved"),
    "a bound that is not whole": (stacked, top(bound=9.0), "unusual JSON"),
    "a bound that is null": (stacked, top(bound=None), "unusual JSON"),
    "a height that is infinite": (stacked, put("plan", height=float("inf")), "unusual JSON"),
    "a size that is no number": (
        stacked, entry("problem", "buffers", 1, 0, float("nan")), "unusual JSON",
    ),
    "a flag for a number": (stacked, entry("plan", "places", 1, 1, False), "unusual JSON"),
    "a number beyond all": (stacked, entry("plan", "places", 1, 1, 10**400), "not within region 0"),
    "a list too short": (stacked, put("plan", places=[[0, 4], [0, 0]]), "longer than"),
    "a list that is a number": (stacked, put("plan", places=4), "malformed, TypeError"),
    "a number that is a list": (stacked, put("plan", height=[9]), "9 is what the buffers reach"),
    "text for a size": (stacked, entry("problem", "buffers", 0, 0, "2"), "malformed, TypeError"),
    "text that is not plain": (stacked, top(kind="a\u00e9"), "unusual JSON"),
    "a buffer with a field too many": (
        stacked, entry("problem", "buffers", 0, [2, 1, [], [], 1]), "shorter than",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*chain(PLANS, BOUNDS, SHAPES)])
def test_a_forgery(name) -> None:
    make, change, reason = {**PLANS, **BOUNDS, **SHAPES}[name]
    document = make()
    assert answer(document).answer == OPTIMAL
    change(document := copied(document))
    verdict = answer(signed(document))
    assert verdict.answer == REJECTED
    assert reason in verdict.detail, verdict.detail
    assert (verdict.size, verdict.bound) == (0, 0)
