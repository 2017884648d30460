"""Loops and branches within graphs of the CUDA driver, from CUDA 12.4 on: the device decides.

A conditional node runs its own graph as often as a handle says, which a kernel sets from bytes of
the device's memory. That kernel calls a function of the device's runtime which the driver knows
when it assembles PTX, so no toolkit is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, final

import numpy as np

from lowtide.llvm.ptx import ptx_of
from lowtide.llvm.target import Target
from lowtide.native import I32, U8, U32, NativeItems, NativeUnit, external, native
from lowtide.runtime.gpu.cuda_calls import CudaCalls

OLDEST: Final = 12040
"""The oldest version of the driver that has conditional nodes."""

PACKAGE: Final = 13000
"""The oldest version of the package, as it tells it, whose functions take what is given here."""


@external
def cudaGraphSetConditional(handle: int, value: U32) -> None:  # noqa: N802
    """Say whether the graph of a handle runs: a function of the device's runtime."""


@native
def set_by_byte(place: NativeItems[U8], handle: int, wanted: int) -> None:
    """Have a graph run where a byte other than 0 is wanted and there, or neither."""
    cudaGraphSetConditional(handle, (place[0] != 0) == (wanted != 0))


@native
def set_by_number(place: NativeItems[I32], handle: int, wanted: int, branches: int) -> None:
    """Have a graph run where its number is there; out of range that is the last one's."""
    found = place[0]
    if found < 0 or found >= branches:
        found = branches - 1
    cudaGraphSetConditional(handle, found == wanted)


CONDITIONS: Final = NativeUnit("conditions", (set_by_byte, set_by_number), "ptx_kernel ")

_OLDEST_DEVICE: Final = Target("nvptx64-nvidia-cuda", "sm_80", ("ptx80",), 16)
"""The oldest architecture that graphs with such nodes are for; newer ones take its PTX."""


@cache
def conditions_ptx() -> str:
    """Return the PTX of the kernels that set handles."""
    return ptx_of(CONDITIONS.text(_OLDEST_DEVICE.triple), _OLDEST_DEVICE)


Launch = Callable[[Any, Sequence[int], Any], None]
"""Starts a function by one thread, with numbers of 64 bits, in a stream."""

Body = Callable[[], None]
"""Puts work into the inner stream."""


@final
class CudaChoices:
    """What puts conditional nodes into graphs that are captured."""

    def __init__(self, calls: CudaCalls, launch: Launch) -> None:
        self.calls, self._launch = calls, launch
        held = np.frombuffer(conditions_ptx().encode() + b"\0", np.uint8)
        self.module = calls("cuModuleLoadData", held.ctypes.data)
        self._by_byte, self._by_number = [
            calls("cuModuleGetFunction", self.module, x.encode()) for x in CONDITIONS.names
        ]

    def loop(self, stream: Any, inner: Any, predicate: int, body: Body) -> None:
        """Repeat what body puts into the inner stream while the byte of an address is not 0."""
        handle = self._handle(stream)
        given = (predicate, int(handle), 1)
        self._launch(self._by_byte, given, stream)
        graph = self._node(stream, handle, "WHILE")

        def repeated() -> None:
            body()
            self._launch(self._by_byte, given, inner)

        self._capture(inner, graph, repeated)

    def branches(
        self, stream: Any, inner: Any, selector: int, is_byte: bool, bodies: Sequence[Body]
    ) -> None:
        """Do what one of the bodies puts into the inner stream, chosen by what is at an address.

        That is a byte, other than 0 for the first of two, or a signed number of 32 bits; out of
        range it chooses the last. It is read before any of them, which may write over it.
        """
        handles = [self._handle(stream) for _ in bodies]
        for number, handle in enumerate(handles):
            if is_byte:
                self._launch(self._by_byte, (selector, int(handle), 1 - number), stream)
            else:
                given = (selector, int(handle), number, len(bodies))
                self._launch(self._by_number, given, stream)
        for handle, body in zip(handles, bodies, strict=True):
            self._capture(inner, self._node(stream, handle, "IF"), body)

    def _captured(self, stream: Any) -> tuple[Any, list[Any], list[Any] | None]:
        """The graph of a stream that is captured, and what comes next in it follows."""
        _, _, graph, nodes, edges, count = self.calls("cuStreamGetCaptureInfo", stream)
        return graph, list(nodes or ())[:count], list(edges or ())[:count] or None

    def _handle(self, stream: Any) -> Any:
        graph, _, _ = self._captured(stream)
        return self.calls("cuGraphConditionalHandleCreate", graph, self.calls.context, 0, 0)

    def _node(self, stream: Any, handle: Any, kind: str) -> Any:
        """A conditional node behind what is in a stream; return its graph, which is empty."""
        cuda = self.calls.cuda
        given = cuda.CUgraphNodeParams()
        given.type = cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        given.conditional.handle = handle
        given.conditional.type = getattr(
            cuda.CUgraphConditionalNodeType, f"CU_GRAPH_COND_TYPE_{kind}"
        )
        given.conditional.size = 1
        given.conditional.ctx = self.calls.context
        graph, nodes, edges = self._captured(stream)
        node = self.calls("cuGraphAddNode", graph, nodes, edges, len(nodes), given)
        flags = cuda.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
        self.calls("cuStreamUpdateCaptureDependencies", stream, [node], None, 1, int(flags))
        return given.conditional.phGraph_out[0]

    def _capture(self, inner: Any, graph: Any, body: Body) -> None:
        modes = self.calls.cuda.CUstreamCaptureMode
        mode = modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.calls("cuStreamBeginCaptureToGraph", inner, graph, None, None, 0, mode)
        body()
        self.calls("cuStreamEndCapture", inner)
