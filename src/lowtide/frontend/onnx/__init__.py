"""ONNX graphs: lists of nodes, and the kernels of their ops, as of opset 13 and its successors."""

from lowtide.frontend.onnx import arrays, control, elementwise, indexing, networks, reductions
from lowtide.frontend.onnx.node_list import OnnxGraph, OnnxNode, compile_nodes

__all__ = [
    "OnnxGraph",
    "OnnxNode",
    "arrays",
    "compile_nodes",
    "control",
    "elementwise",
    "indexing",
    "networks",
    "reductions",
]
