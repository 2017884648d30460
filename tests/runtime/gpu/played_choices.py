"""The part of a played CUDA driver by which graphs have loops and branches."""

# ruff: noqa: N802 (the names are the package's)

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from types import SimpleNamespace
from typing import Any


class ChoiceKinds(IntEnum):
    CU_GRAPH_COND_TYPE_IF = 0
    CU_GRAPH_COND_TYPE_WHILE = 1
    CU_STREAM_SET_CAPTURE_DEPENDENCIES = 2
    CU_GRAPH_NODE_TYPE_CONDITIONAL = 13


@dataclass
class Setting:
    """The kernel that sets a handle from a byte, or from a number of 32 bits."""

    handles: dict[int, bool]

    def launch(self, _: object, given: list[int]) -> None:
        place, handle, wanted, *branches = given
        if branches:
            number = ctypes.c_int32.from_address(place).value
            number = number if 0 <= number < branches[0] else branches[0] - 1
            self.handles[handle] = number == wanted
        else:
            self.handles[handle] = bool(ctypes.c_uint8.from_address(place).value) == bool(wanted)


@dataclass
class ConditionalNode:
    """A graph that runs as a handle says."""

    handles: dict[int, bool]
    handle: int
    repeats: bool
    graph: list[Any]

    def launch(self, *_: object) -> None:
        while self.handles.pop(self.handle):
            for kernels, launch, addresses in self.graph:
                kernels.launch(launch, addresses)
            if not self.repeats:
                return


class PlayedChoices:
    """Captures lie within one another; a handle that is read and was not set is an error."""

    CUDA_VERSION = 13000
    CUgraphConditionalNodeType = ChoiceKinds
    CUstreamUpdateCaptureDependencies_flags = CUgraphNodeType = ChoiceKinds
    success: Any

    def __init__(self) -> None:
        self.handles: dict[int, bool] = {}
        self.last_handle = 0
        self.captured: list[Any] | None = None
        self.outer: list[list[Any] | None] = []

    def CUgraphNodeParams(self) -> Any:
        return SimpleNamespace(type=None, conditional=SimpleNamespace())

    def cuStreamGetCaptureInfo(self, stream: str) -> tuple[Any, ...]:
        assert self.captured is not None
        return self.success, 1, 1, self.captured, ["node"], None, 1

    def cuGraphConditionalHandleCreate(self, graph: Any, context: str, first: int, how: int) -> Any:
        assert (graph is self.captured, context, first, how) == (True, "context", 0, 0)
        self.last_handle += 1
        return self.success, self.last_handle

    def cuGraphAddNode(
        self, graph: list[Any], nodes: Any, edges: Any, count: int, given: Any
    ) -> Any:
        assert graph is self.captured and (nodes, edges, count) == (["node"], None, 1)
        assert given.type == ChoiceKinds.CU_GRAPH_NODE_TYPE_CONDITIONAL
        how = given.conditional
        assert how.size == 1 and how.ctx == "context"
        repeats = how.type is ChoiceKinds.CU_GRAPH_COND_TYPE_WHILE
        node = ConditionalNode(self.handles, how.handle, repeats, [])
        how.phGraph_out = [node.graph]
        graph.append((node, None, None))
        return self.success, "conditional"

    def cuStreamUpdateCaptureDependencies(self, stream: str, nodes: Any, *others: Any) -> Any:
        assert (nodes, others) == (["conditional"], (None, 1, 2))
        return (self.success,)

    def cuStreamBeginCaptureToGraph(self, stream: str, graph: list[Any], *others: Any) -> Any:
        assert others == (None, None, 0, 1)
        self.outer.append(self.captured)
        self.captured = graph
        return (self.success,)
