"""Symbolic execution of framework graphs: a table of op kernels, and the walk that runs them.

`compile_graph_def` takes nodes of TensorFlow, `compile_nodes` those of ONNX. Each node's kernel
runs once, in topological order, on expressions in place of tensors, and builds operations of HLO.
"""

from lowtide.client.op_kernels.compiled_graphs import CompiledGraph, CompiledGraphs
from lowtide.client.op_kernels.compiler import GraphCompiler, GraphProgram
from lowtide.client.op_kernels.context import OpKernelContext
from lowtide.client.op_kernels.errors import GraphError
from lowtide.client.op_kernels.expression import Expression
from lowtide.client.op_kernels.onnx import Node, OnnxGraph, compile_nodes
from lowtide.client.op_kernels.registry import OpKernel, op, op_names
from lowtide.client.op_kernels.tensorflow import FunctionDef, NodeDef, compile_graph_def

__all__ = [
    "CompiledGraph",
    "CompiledGraphs",
    "Expression",
    "FunctionDef",
    "GraphCompiler",
    "GraphError",
    "GraphProgram",
    "Node",
    "NodeDef",
    "OnnxGraph",
    "OpKernel",
    "OpKernelContext",
    "compile_graph_def",
    "compile_nodes",
    "op",
    "op_names",
]
