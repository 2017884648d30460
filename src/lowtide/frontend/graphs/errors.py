"""The error of symbolic execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from lowtide.ir.errors import LowtideError

if TYPE_CHECKING:
    from lowtide.frontend.graphs.expression import Expression


class GraphError(LowtideError):
    """A graph cannot be compiled; `node` and `op` say at which node, "" where it is none."""

    def __init__(self, message: str, *, node: str = "", op: str = "") -> None:
        self.node = node
        self.op = op
        where = f"node {node!r} ({op}): " if node else ""
        super().__init__(f"{where}{message}")


class NotConstantError(GraphError):
    """An input has to be known when the graph is compiled, and is not; `value` is that input."""

    def __init__(self, message: str, value: Expression, *, node: str, op: str) -> None:
        self.value = value
        super().__init__(message, node=node, op=op)


@final
class UnknownConditionError(NotConstantError):
    """A condition has to be known when the graph is compiled: of its branches only one can be."""


@final
class NoTensorFormError(GraphError):
    """A node whose result has no shape that is known when the graph is compiled."""
