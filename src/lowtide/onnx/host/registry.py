"""The table of nodes that are computed on the host, beside compiled stretches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from lowtide.frontend.graphs.context import REQUIRED
from lowtide.frontend.graphs.graph import GraphError, GraphNode, OpGraph
from lowtide.onnx.values import Value
from lowtide.records import dataclass

RunGraph: TypeAlias = Callable[[str, Sequence[Value]], list[Value]]
"""Runs the graph that is the named attribute of a node on values of its inputs."""


@dataclass(eq=False, slots=True)
class NodeCall:
    """One run of a node: its inputs, None for those left out, and what runs graphs inside of it.

    `kept` is what was made of the node's attributes in earlier runs, by a name.
    """

    node: GraphNode
    inputs: Sequence[Value]
    run_graph: RunGraph
    kept: dict[str, Any]

    def input(self, number: int) -> Value:
        """Return an input, None where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else None

    def attribute(self, name: str, default: Any = REQUIRED) -> Any:
        """Return an attribute, text decoded, or the default."""
        value = self.node.attributes.get(name)
        if value is None:
            if default is REQUIRED:
                raise self.error(f"attribute {name!r} is missing")
            return default
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, list):
            key = f"attribute {name}"
            if key not in self.kept:
                self.kept[key] = [x.decode() if isinstance(x, bytes) else x for x in value]
            return self.kept[key]
        return value

    def graph(self, name: str) -> OpGraph:
        """Return the graph that is an attribute."""
        found = self.attribute(name)
        if not isinstance(found, OpGraph):
            raise self.error(f"attribute {name!r} has to be a graph")
        return found

    def error(self, message: str) -> GraphError:
        """Return the error to raise."""
        return GraphError(message, node=self.node.name, op=self.node.op)


HostKernel: TypeAlias = Callable[[NodeCall], Sequence[Value]]

_KERNELS: Final[dict[str, HostKernel]] = {}
_TEXT_ONLY: Final[set[str]] = set()


def host(*names: str, text_only: bool = False) -> Callable[[HostKernel], HostKernel]:
    """Return a decorator that registers a function as what computes ops on the host.

    Those for `text_only` never stand in for a module that cannot be made.
    """

    def register(kernel: HostKernel) -> HostKernel:
        for name in names:
            if name in _KERNELS:
                raise ValueError(f"the host has {name} already")
            _KERNELS[name] = kernel
            if text_only:
                _TEXT_ONLY.add(name)
        return kernel

    return register


def host_kernels() -> Mapping[str, HostKernel]:
    """Return what computes ops on the host, by their names."""
    from lowtide.onnx.host import (
        control,
        images,
        learned,
        random,
        sequences,
        shapes,
        strings,
        texts,
    )

    assert all([control, images, learned, random, sequences, shapes, strings, texts])
    return _KERNELS


def stands_in(name: str) -> bool:
    """Whether the host computes an op where no module can, also on tensors."""
    host_kernels()
    return name in _KERNELS and name not in _TEXT_ONLY
