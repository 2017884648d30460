"""TensorFlow's graphs: nodes as in a GraphDef, and the kernels of their ops."""

from lowtide.frontend.tensorflow import (
    blocks,
    network_gradients,
    arrays,
    control,
    elementwise,
    gradients,
    indexing,
    lists,
    networks,
    random,
    reductions,
    sources,
    tensor_arrays,
    updates,
)
from lowtide.frontend.tensorflow.graph_def import FunctionDef, NodeDef, compile_graph_def

__all__ = [
    "blocks",
    "network_gradients",
    "FunctionDef",
    "NodeDef",
    "arrays",
    "compile_graph_def",
    "control",
    "elementwise",
    "gradients",
    "indexing",
    "lists",
    "networks",
    "random",
    "reductions",
    "sources",
    "tensor_arrays",
    "updates",
]
