"""Symbolic execution of framework graphs: a table of op kernels, and the walk that runs them.

Each node's kernel runs once, in topological order, on expressions in place of tensors, and builds
operations of HLO. `frontend/onnx` and `frontend/tensorflow` have the kernels, and read the nodes.
"""

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
