"""The error of symbolic execution."""

from __future__ import annotations

from typing import final

from lowtide.ir.errors import LowtideError


@final
class GraphError(LowtideError):
    """A graph cannot be compiled; `node` and `op` say at which node, "" where it is none."""

    def __init__(self, message: str, *, node: str = "", op: str = "") -> None:
        self.node = node
        self.op = op
        where = f"node {node!r} ({op}): " if node else ""
        super().__init__(f"{where}{message}")
