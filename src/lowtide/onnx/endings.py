"""Nodes behind a program that computes the rest of a model: maps, labels and texts of its results.

They are run by the host in their order, and are kept beside the program where JSON can say their
attributes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, final

from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.ir.errors import LowtideError
from lowtide.onnx.host.registry import HostKernel, NodeCall, host_kernels
from lowtide.onnx.values import Value

Endings: TypeAlias = tuple[GraphNode, ...]

RunInner: TypeAlias = Callable[[GraphNode, Mapping[str, Value], str, Sequence[Value]], list[Value]]
"""Runs the graph that is the named attribute of a node on values of its inputs, among others."""

_FAULTS: Final = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError)


@final
class HostNode:
    """A node that the host runs, with what its kernel made of it in earlier runs.

    `run_graph` runs the graph that is an attribute on values of its inputs, among other values.
    """

    def __init__(self, node: GraphNode, kernel: HostKernel, run_graph: RunInner) -> None:
        self._node = node
        self._kernel = kernel
        self._run_graph = run_graph
        self._kept: dict[str, Any] = {}
        self._has_graphs = not can_end(node)

    def __call__(self, values: dict[str, Value]) -> None:
        """Add what the node makes to the values; raises GraphError, which names it."""
        node, run_graph = self._node, _no_graph
        if self._has_graphs:
            run_graph = partial(self._run_graph, node, values)
        inputs = [values[x] if x else None for x in node.inputs]
        try:
            results = self._kernel(NodeCall(node, inputs, run_graph, self._kept))
        except LowtideError:
            raise
        except _FAULTS as error:
            raise GraphError(f"cannot be computed: {error}", node=node.name, op=node.op) from error
        pairs = zip(node.outputs, results, strict=False)
        values.update([pair for pair in pairs if pair[0]])


class EndingRun:
    """Nodes at the end of a model, ready to be run on the results of its program."""

    def __init__(self, nodes: Endings) -> None:
        kernels = host_kernels()
        self._nodes = [HostNode(x, kernels[x.op], _no_inner) for x in nodes]

    def __call__(self, values: dict[str, Value]) -> None:
        """Add what the nodes make to the values; raises GraphError, which names the node."""
        for node in self._nodes:
            node(values)


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


def _no_inner(
    node: GraphNode, values: Mapping[str, Value], attribute: str, arguments: Sequence[Value]
) -> list[Value]:
    return _no_graph(attribute, arguments)


def _no_graph(attribute: str, arguments: Sequence[Value]) -> list[Value]:
    raise LookupError(f"there is no graph {attribute!r}")
