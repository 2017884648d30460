"""Bounds on any order as trees: of two nodes one comes first, up to cuts that show a peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowtide.certificate.flows import FlowCut, cut_at
from lowtide.certificate.graphs import CertifiedGraph, reached
from lowtide.scheduling.proof import CYCLE, SPLIT, CutBound, OrderRefutation, Proof

Pair = tuple[int, int]
Entry = Pair | FlowCut


def tree_of(graph: CertifiedGraph, proof: Proof, held: Sequence[int]) -> tuple[int, list[Entry]]:
    """Return a number of bytes that every order needs, and the tree that shows it, in preorder.

    A pair of nodes is followed by the case that the first one comes first and by the other one; a
    cut ends a case. `held` is per node of `graph`. The bytes are at least those of the proof, as
    far as its own cuts are least ones.
    """
    if isinstance(proof, OrderRefutation):
        tree = list(_cases(graph, proof, held))
        cuts = [entry for entry in tree if isinstance(entry, FlowCut)]
        values = [x.own + x.value for x in cuts if not _in_circle(x)]
        return min(values, default=proof.bytes), tree
    nodes = [proof.node + 1] if isinstance(proof, CutBound) else [graph.end, 0]
    cuts = [cut_at(graph, node, held[node]) for node in nodes]
    best = max(cuts, key=lambda cut: cut.own + cut.value)
    return best.own + best.value, [best]


def tree_document(tree: Sequence[Entry]) -> list[object]:
    """Return the entries as evidence."""
    return [x.document() if isinstance(x, FlowCut) else list(x) for x in tree]


def _cases(graph: CertifiedGraph, proof: OrderRefutation, held: Sequence[int]) -> Iterator[Entry]:
    """Yield the entries of all cases, each with what is known in it."""
    children: dict[int, list[int]] = {}
    for number, case in enumerate(proof.cases):
        children.setdefault(case.parent, []).append(number)
    todo: list[tuple[int, tuple[Pair, ...]]] = [(number, ()) for number in children.get(-1, [])]
    while todo:
        number, known = todo.pop()
        case = proof.cases[number]
        pairs = list(known)
        if case.parent >= 0:
            pairs.append((case.first + 1, case.second + 1))
        for before, behind, at in case.forced.tolist():
            wrong = (behind + 1, before + 1)
            yield wrong
            yield _refuted(graph, at + 1, (*pairs, wrong), held)
            pairs.append((before + 1, behind + 1))
        if case.closed_at == CYCLE:
            yield _circle(graph, pairs)
            continue
        if case.closed_at != SPLIT:
            yield _refuted(graph, case.closed_at + 1, tuple(pairs), held)
            continue
        first, second = children[number]
        yield proof.cases[first].first + 1, proof.cases[first].second + 1
        todo += [(second, tuple(pairs)), (first, tuple(pairs))]


def _refuted(
    graph: CertifiedGraph, node: int, pairs: tuple[Pair, ...], held: Sequence[int]
) -> FlowCut:
    """Return the cut at a node; one without a flow where the last pair closes a circle."""
    if pairs:
        first, second = pairs[-1]
        if first in reached(second, graph.successors(pairs)[0]):
            return FlowCut(first, 0, 0, (), ())
    return cut_at(graph, node, held[node], pairs=pairs)


def _circle(graph: CertifiedGraph, pairs: Sequence[Pair]) -> FlowCut:
    """Return what ends a case in which nodes wait for each other."""
    behind, _ = graph.successors(pairs)
    node = next(x for pair in reversed(pairs) for x in pair if x in reached(x, behind))
    return FlowCut(node, 0, 0, (), ())


def _in_circle(cut: FlowCut) -> bool:
    return not cut.flow and not cut.own
