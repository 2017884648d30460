"""ONNX graphs: lists of nodes and models, and the kernels of their ops in all opsets."""

from lowtide.frontend.onnx import (
    arrays,
    attention,
    control,
    elementwise,
    indexing,
    linear_attention,
    microsoft,
    networks,
    pooling,
    quantization,
    recurrent,
    reductions,
    resizing,
    signal,
    training,
)
from lowtide.frontend.onnx.node_list import OnnxGraph, OnnxNode, compile_nodes

__all__ = [
    "OnnxGraph",
    "OnnxNode",
    "arrays",
    "attention",
    "compile_nodes",
    "control",
    "elementwise",
    "indexing",
    "linear_attention",
    "microsoft",
    "networks",
    "pooling",
    "quantization",
    "recurrent",
    "reductions",
    "resizing",
    "signal",
    "training",
]
