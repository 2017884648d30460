"""Symbolic execution of framework graphs: a table of op kernels, and the walk that runs them.

Each node's kernel runs once, in topological order, on expressions in place of tensors, and builds
operations of HLO. `frontend/onnx` and `frontend/tensorflow` have the kernels, and read the nodes.
A name is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING

from lowtide.records.late import late_names

if TYPE_CHECKING:
    from lowtide.frontend.graphs.compiler import GraphCompiler, GraphProgram
    from lowtide.frontend.graphs.context import OpKernelContext
    from lowtide.frontend.graphs.expression import Expression
    from lowtide.frontend.graphs.graph import GraphError
    from lowtide.frontend.graphs.registry import OpKernel, op, op_names

__all__ = [
    "Expression",
    "GraphCompiler",
    "GraphError",
    "GraphProgram",
    "OpKernel",
    "OpKernelContext",
    "op",
    "op_names",
]

if not TYPE_CHECKING:
    __getattr__ = late_names(
        __name__,
        {
            "compiler": ("GraphCompiler", "GraphProgram"),
            "context": ("OpKernelContext",),
            "expression": ("Expression",),
            "graph": ("GraphError",),
            "registry": ("OpKernel", "op", "op_names"),
        },
    )
