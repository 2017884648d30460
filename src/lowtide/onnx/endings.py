"""Nodes behind a program that computes the rest of a model: maps, labels and texts of its results.

They are run by the host in their order, and are kept beside the program where JSON can say their
attributes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.ir.errors import LowtideError
from lowtide.onnx.host.registry import HostKernel, NodeCall, RunGraph, host_kernels
from lowtide.onnx.values import Value

Endings: TypeAlias = tuple[GraphNode, ...]

_FAULTS: Final = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError)


def run_on_host(
    kernel: HostKernel,
    node: GraphNode,
    values: dict[str, Value],
    run_graph: RunGraph,
    kept: dict[str, Any],
) -> None:
    """Add what a node makes to the values; raises GraphError, which names it."""
    inputs = [values[x] if x else None for x in node.inputs]
    try:
        results = kernel(NodeCall(node, inputs, run_graph, kept))
    except LowtideError:
        raise
    except _FAULTS as error:
        raise GraphError(f"cannot be computed: {error}", node=node.name, op=node.op) from error
    pairs = zip(node.outputs, results, strict=False)
    values.update({name: value for name, value in pairs if name})


class EndingRun:
    """Nodes at the end of a model, ready to be run on the results of its program."""

    def __init__(self, nodes: Endings) -> None:
        kernels = host_kernels()
        self._calls: list[tuple[HostKernel, GraphNode, dict[str, Any]]] = [
            (kernels[x.op], x, {}) for x in nodes
        ]

    def __call__(self, values: dict[str, Value]) -> None:
        """Add what the nodes make to the values; raises GraphError, which names the node."""
        for kernel, node, kept in self._calls:
            run_on_host(kernel, node, values, _no_graph, kept)


def can_end(node: GraphNode) -> bool:
    """Whether a node may stand behind a program: it has no graph inside that is run."""
    return not any(isinstance(x, OpGraph) for x in node.attributes.values())


def written_endings(nodes: Endings) -> list[Any] | None:
    """Return the nodes as values of JSON, None where it cannot say their attributes."""
    found = [
        [x.name, x.op, x.inputs, x.outputs, _decoded(x.attributes), x.after, x.version, x.source]
        for x in nodes
    ]
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return found


def read_endings(written: Sequence[Any]) -> Endings:
    """Return the nodes that `written_endings` gave."""
    return tuple([_node(*x) for x in written])


def _node(
    name: str,
    op: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Any],
    after: Sequence[str],
    version: int,
    source: tuple[str, int],
) -> GraphNode:
    lists = tuple(inputs), tuple(outputs)
    file, line = source
    return GraphNode(name, op, *lists, attributes, tuple(after), version, (file, line))


def _decoded(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Texts in place of bytes, which kernels read alike."""
    return {
        name: [_text(y) for y in x] if isinstance(x, list | tuple) else _text(x)
        for name, x in attributes.items()
    }


def _text(value: Any) -> Any:
    """A text for bytes that are one; JSON refuses others."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _no_graph(attribute: str, arguments: Sequence[Value]) -> list[Value]:
    raise LookupError(f"there is no graph {attribute!r}")
