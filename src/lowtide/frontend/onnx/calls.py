"""Operators that the nodes of a model call, those of graphs within nodes too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import lowtide.frontend.onnx.kernels  # noqa: F401, has them in the table.
from lowtide.frontend.graphs.registry import op_names
from lowtide.frontend.onnx.texts import name_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

MAIN_DOMAINS: Final = ("", "ai.onnx")


def calls(nodes: Iterable[NodeProto]) -> Iterator[tuple[str, str]]:
    """Yield domain and operator of each node, those of graphs within nodes too."""
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        yield node.domain, node.op_type
        for attribute in node.attribute:
            graphs: list[GraphProto] = [*attribute.graphs]
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            waiting += [inner for graph in graphs for inner in graph.node]


def without_kernels(nodes: Iterable[NodeProto]) -> list[tuple[str, str]]:
    """Return the operators of nodes that have no kernel, sorted."""
    known = set(op_names("onnx"))
    found = {(name_of(domain), name_of(name)) for domain, name in calls(nodes)}
    operators = {("" if domain in MAIN_DOMAINS else domain, name) for domain, name in found}
    return sorted([x for x in operators if _name(x) not in known])


def _name(operator: tuple[str, str]) -> str:
    domain, name = operator
    return f"{domain}.{name}" if domain else name
