"""ONNX graphs: lists of nodes and models, and the kernels of their ops in all opsets.

A name is loaded when it is first asked for: a model that is known needs no kernel.
"""

from typing import TYPE_CHECKING

from lowtide.records.late import late_names

__all__ = ["OnnxGraph", "OnnxNode", "compile_nodes"]


if TYPE_CHECKING:
    from lowtide.frontend.onnx.node_list import OnnxGraph, OnnxNode, compile_nodes
else:
    __getattr__ = late_names(__name__, node_list="OnnxGraph OnnxNode compile_nodes")
