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
    """A change of some columns or numbers of a section."""

    def change(document):
        document[section].update(columns)

    return change


def entry(section, column, position, value):
    """A change of one number in a column."""

    def change(document):
        document[section][column][position] = value

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


def tree(**fields):
    """Other entries of a search tree, for the bound that is claimed."""
    return both(lambda document: document["evidence"].update(fields))


def grown(document):
    """The tree of a height that does not do, said to be that of one that does."""
    document["evidence"]["height"] += 1
    document["bound"] += 1


def unplaced(document):
    """A tree that ends one entry early."""
    document["evidence"]["closed"].pop()


def opened(document):
    """A node that has children, closed by the step that closes another one."""
    closed = document["evidence"]["closed"]
    document["evidence"]["closed"] = [max(closed)]


PLANS = {
    "a height that is not reached": (stacked, put("plan", height=8), "plan.height"),
    "a height that is exceeded": (
        stacked, both(put("plan", height=8), top(bound=8)), "9 is what the buffers reach",
    ),
    "two buffers at one place": (
        stacked, both(put("plan", offset=[0, 0, 6, 4])), "buffers 0 and 1 overlap",
    ),
    "two buffers that overlap by a byte": (
        stacked, put("plan", offset=[4, 0, 5, 4], height=8), "buffers 0 and 2 overlap at step 2",
    ),
    "an overlap with what lies above": (
        stacked, put("plan", offset=[8, 0, 6, 4], height=10), "buffers 2 and 0 overlap at step 2",
    ),
    "an overlap behind a gap": (
        stacked, put("plan", offset=[4, 0, 6, 2]), "buffers 1 and 3 overlap at step 3",
    ),
    "an offset that is not aligned": (stacked, put("plan", offset=[0, 2, 6, 0]), "buffer 1"),
    "an offset below 0": (stacked, put("plan", offset=[4, -4, 6, 4]), "plan.offset"),
    "an offset in no region": (stacked, put("plan", region=[-1, -1, 0, -1]), "region 0"),
    "a region below the arena": (stacked, put("plan", region=[-1, -1, -2, -1]), "plan.region"),
    "a buffer that reaches out of its region": (
        in_regions,
        put("plan", region=[0, 0, 0, -1], offset=[0, 6, 8, 6]),
        "buffer 2: it does not lie within region 0",
    ),
    "an overlap in a region": (in_regions, put("plan", offset=[6, 6, 0, 6]), "buffers 0 and 1"),
    "a buffer that is not where it is fixed": (
        in_regions, put("plan", offset=[6, 0, 0, 6]), "not where fixed",
    ),
    "a buffer fixed in a region that lies in the arena": (
        in_regions,
        both(put("plan", region=[0, -1, -1, -1], offset=[0, 6, 12, 18], height=20)),
        "not where fixed",
    ),
    "a place fixed in a region that there is not": (
        in_regions, entry("problem", "fixed_in", 1, 1), "not where fixed",
    ),
    "a larger buffer": (stacked, entry("problem", "size", 2, 4), "plan.height"),
    "a stretch that ends before it begins": (stacked, entry("problem", "last", 0, -1), "buffer 0"),
    "a stretch of a buffer that there is not": (
        stacked, entry("problem", "buffer", 0, 4), "no stretch of buffer 4",
    ),
    "a longer stretch": (stacked, entry("problem", "last", 0, 3), "buffers 0 and 3 overlap"),
    "an alignment of 0": (stacked, entry("problem", "alignment", 0, 0), "problem.alignment"),
    "a negative size": (stacked, entry("problem", "size", 0, -2), "problem.size"),
    "two tensors in one object at once": (
        shared, put("plan", object=[0, 0, 1, 1], size=[4, 3]), "tensor 1 must not follow 0",
    ),
    "an object smaller than a tensor": (shared, put("plan", size=[3, 3], total=6), "plan.size"),
    "an object larger than all its tensors": (shared, put("plan", size=[5, 3]), "plan.size"),
    "an object without tensors": (shared, put("plan", size=[4, 3, 0]), "plan.size"),
    "an object that there is not": (shared, put("plan", object=[0, 2, 0, 1]), "plan.object"),
    "another total": (shared, put("plan", total=6), "plan.total"),
    "a tensor that ends before it begins": (
        shared, entry("problem", "last", 1, 0), "tensor [1] ends before",
    ),
    "a tensor that must not follow another one": (
        lambda: shared(graph=[[2], [3], [0], [1]]),
        put("plan", object=[0, 1, 0, 0], size=[4, 3], total=7),
        "tensor 3 must not follow 2",
    ),
    "a graph that is empty": (
        lambda: shared(graph=[[2], [3], [0], [1]]),
        put("problem", before=[], after=[]),
        "must not follow",
    ),
}  # fmt: skip

BOUNDS = {
    "a bound without evidence": (stacked, top(evidence=None), "0 is what is proved"),
    "a bound above what is proved": (stacked, top(bound=10), "9 is what is proved"),
    "a bound below what is proved": (stacked, top(bound=8), "9 is what is proved"),
    "a step with less": (stacked, evidence(kind="live", step=0), "2 is what is proved"),
    "a step with nothing": (stacked, evidence(kind="live", step=99), "0 is what is proved"),
    "a region whose bytes are forgotten": (
        in_regions, top(bound=20), "20 is claimed, 8 is what is proved",
    ),
    "a stretch that counts twice": (
        stacked,
        both(
            put("problem", buffer=[0, 0, 1, 2, 3], first=[0, 1, 1, 2, 3], last=[2, 2, 3, 2, 5]),
            top(bound=11),
        ),
        "is no stretch of buffer 0",
    ),
    "a row that stands twice": (
        stacked,
        both(
            put("problem", buffer=[0, 0, 1, 2, 3], first=[0, 0, 1, 2, 3], last=[2, 2, 3, 2, 5]),
            top(bound=11),
        ),
        "is no stretch of buffer 0",
    ),
    "an alignment that is not that of all": (stacked, top(bound=12), "9 is what is proved"),
    "no tree": (refuted, tree(closed=[]), "0 entries leave something to try"),
    "a tree of its root": (refuted, tree(closed=[-1]), "entries leave something to try"),
    "a tree without its last node": (refuted, unplaced, "entries leave something to try"),
    "a tree with one node more": (
        refuted,
        lambda document: document["evidence"]["closed"].append(-1),
        "the tree ended before",
    ),
    "a root that is closed, but has room": (refuted, opened, "closed[0]: step"),
    "a tree of a lower height": (refuted, grown, "has room"),
    "a tree of two equal halves": (
        refuted,
        lambda document: document["evidence"].update(closed=document["evidence"]["closed"] * 2),
        "the tree ended before",
    ),
    "a tree of a few buffers": (refuted, tree(buffers=[0, 1]), "evidence.closed["),
    "a tree of a buffer that there is not": (refuted, tree(buffers=[99]), "one is not there"),
    "a part at a step with nothing": (refuted, tree(closed=[-1001, -1]), "all buffers have found"),
    "a part without a tree": (refuted, tree(closed=[-5]), "entries leave something to try"),
    "parts of parts without end": (refuted, tree(closed=[-5] * 50), "leave something to try"),
    "a closed node at a step with nothing": (refuted, tree(closed=[1000]), "step 1000 has room"),
    "a path to a packing": (stacked, evidence(
        kind="refutation", height=8, buffers=[2], closed=[-1, -1],
    ), "all buffers have found a place"),
    "a fixed place that is none": (stacked, evidence(
        kind="refutation", height=8, buffers=[2], closed=[2],
    ), "has room"),
    "buffers of no bytes in the way": (
        stacked,
        both(
            entry("problem", "size", 1, 0),
            evidence(kind="refutation", height=8, buffers=[1], closed=[1]),
        ),
        "all buffers have found a place",
    ),
    "a tree where there are regions": (
        in_regions, evidence(kind="refutation", height=7, buffers=[], closed=[0]), "regions",
    ),
    "fewer tensors than said": (
        shared, both(evidence(kind="clique", step=[1, 1, 1], size=[4, 3, 0])), "3 tensors",
    ),
    "larger tensors than live then": (
        shared, both(top(bound=8), evidence(kind="clique", step=[1, 1], size=[4, 4])), "2 tensors",
    ),
    "tensors of another step": (
        shared, evidence(kind="clique", step=[1, 2], size=[4, 3]), "less than 2 tensors of 3 at 2",
    ),
    "tensors that live before and after": (
        shared, evidence(kind="clique", step=[4, 4], size=[3, 3]), "less than 2 tensors",
    ),
    "a bound below the clique": (shared, top(bound=6), "7 is what is proved"),
    "a price above a tensor's size": (
        priced, evidence(kind="dual", price=[10, 6, 0, 0], denominator=2), "in 4 bytes",
    ),
    "prices of tensors that fit one object": (
        priced, evidence(kind="dual", price=[8, 6, 2, 0], denominator=2), "tensors cost more",
    ),
    "prices of tensors one after the other": (
        priced, evidence(kind="dual", price=[4, 6, 0, 1], denominator=2), "in 3 bytes",
    ),
    "a smaller denominator": (
        priced, evidence(kind="dual", price=[8, 6, 0, 0], denominator=1), "tensors cost more",
    ),
    "no denominator": (
        priced, evidence(kind="dual", price=[8, 6, 0, 0], denominator=0), "evidence.denominator",
    ),
    "a negative price": (
        priced, evidence(kind="dual", price=[10, 6, -2, 0], denominator=2), "evidence.price",
    ),
    "too few prices": (priced, evidence(kind="dual", price=[8, 6], denominator=2), "2 entries"),
    "a bound below the prices": (priced, top(bound=6), "7 is what is proved"),
}  # fmt: skip

SHAPES = {
    "another schema": (stacked, top(schema="lowtide.certificate/2"), "schema"),
    "another kind": (stacked, top(kind="objects"), "problem: expected an object with the fields"),
    "an unknown kind": (stacked, top(kind="orders"), "kind: expected one of offsets, objects"),
    "a kind that is a list": (stacked, top(kind=[]), "kind: expected one of offsets, objects"),
    "a field too many": (stacked, top(note=1), "expected an object with the fields"),
    "a field too many in the problem": (stacked, put("problem", note=[]), "problem: expected"),
    "a field too many in the plan": (stacked, put("plan", note=0), "plan: expected"),
    "a field too many in the evidence": (stacked, put("evidence", note=0), "evidence: expected"),
    "a field too few in the problem": (stacked, without("problem", "size"), "problem: expected"),
    "a field too few in the evidence": (stacked, without("evidence", "step"), "evidence: expected"),
    "evidence of no kind": (stacked, without("evidence", "kind"), "evidence.kind"),
    "evidence of a kind for objects": (stacked, put("evidence", kind="dual"), "evidence.kind"),
    "evidence that is a list": (stacked, top(evidence=[]), "evidence.kind"),
    "evidence that is a flag": (stacked, top(evidence=False), "evidence.kind"),
    "a problem that is null": (stacked, top(problem=None), "problem: expected an object"),
    "a plan that is a list": (stacked, top(plan=[]), "plan: expected an object"),
    "a bound that is a flag": (stacked, top(bound=True), "certificate.bound"),
    "a bound that is text": (stacked, top(bound="9"), "certificate.bound"),
    "a bound that is not whole": (stacked, top(bound=9.0), "certificate.bound"),
    "a bound that is null": (stacked, top(bound=None), "certificate.bound"),
    "a height that is infinite": (stacked, put("plan", height=float("inf")), "plan.height"),
    "a size that is no number": (
        stacked,
        entry("problem", "size", 1, float("nan")),
        "problem.size",
    ),
    "a flag for a number": (stacked, entry("plan", "offset", 1, False), "plan.offset"),
    "a number beyond 62 bits": (stacked, entry("plan", "offset", 1, 2**62), "plan.offset"),
    "a number beyond all": (stacked, entry("plan", "offset", 1, 10**400), "plan.offset"),
    "a column too short": (stacked, put("plan", offset=[4, 0, 6]), "3 entries, expected 4"),
    "a column that is a number": (stacked, put("plan", offset=4), "plan.offset"),
    "a column of columns": (stacked, put("plan", offset=[[4], [0], [6], [4]]), "plan.offset"),
    "a number that is a column": (stacked, put("plan", height=[9]), "plan.height"),
    "rows of different lengths": (stacked, put("problem", first=[0, 1]), "problem.first"),
    "a clique of different lengths": (shared, put("evidence", step=[1]), "evidence.size"),
}


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
