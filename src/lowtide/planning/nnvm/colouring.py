"""Colours for the nodes of a graph: those of one colour run one after another."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.planning.nnvm.graph import NnvmGraph


def colour_nodes(graph: NnvmGraph, most: int) -> list[int]:
    """Return a colour per node, from 0 up to at most `most`, which is not included.

    Again and again the path with the most operations that have no colour gets the next one; what
    remains has the last one. Operations of different colours may run at the same time, so that
    storage is not to pass from one colour to another. Variables are of the last colour.
    """
    colours = [-1] * len(graph.nodes)
    weight = [0 if node.is_variable else 1 for node in graph.nodes]
    for colour in range(most - 1):
        path = _heaviest_path(graph, weight)
        if not path:
            break
        for number in path:
            if weight[number]:
                colours[number] = colour
                weight[number] = 0
    last = max(colours, default=-1) + 1
    return [last if colour < 0 else colour for colour in colours]


def _heaviest_path(graph: NnvmGraph, weight: Sequence[int]) -> list[int]:
    """Return a path of the greatest weight, empty where that is 0.

    Of equal ones it is that which the walk from the last node to the first meets first, at each
    node the way to the later successor.
    """
    best = [0] * len(weight)
    following = [-1] * len(weight)
    heaviest, start = 0, -1
    for number in range(len(weight) - 1, -1, -1):
        best[number] += weight[number]
        if best[number] > heaviest:
            heaviest, start = best[number], number
        for source, _ in graph.nodes[number].inputs:
            if best[number] > best[source]:
                best[source] = best[number]
                following[source] = number
    path = []
    while start >= 0:
        path.append(start)
        start = following[start]
    return path
