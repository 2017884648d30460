"""Ops without a kernel, in a graph and in the functions that it calls, told all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.frontend.graphs.graph import GraphNode, OpGraph, needed_nodes
from lowtide.frontend.graphs.registry import check_known


def check_ops(
    domain: str,
    graph: OpGraph,
    given: Sequence[str],
    library: Mapping[str, OpGraph],
    besides: Sequence[GraphNode] = (),
) -> None:
    """Raise UnsupportedOpError for the ops that have no kernel, of what the outputs need.

    `given` are values that are there from the start. The nodes `besides` count as needed: those
    that change something which no output reads. Raises GraphError for a graph that is malformed.
    """
    found: list[GraphNode] = [*besides]
    waiting = [(graph, [*given])]
    seen: set[str] = set()
    while waiting:
        inner, known = waiting.pop()
        for node in needed_nodes(inner, known):
            found.append(node)
            for called in called_functions(node, library):
                if called not in seen:
                    seen.add(called)
                    waiting.append((library[called], [*library[called].inputs]))
    check_known(found, domain)


def called_functions(node: GraphNode, library: Mapping[str, OpGraph]) -> list[str]:
    """Return the functions that the attributes of a node name."""
    values = node.attributes.values()
    names = [x for value in values for x in (value if isinstance(value, list) else [value])]
    return [x for x in names if isinstance(x, str) and x in library]
