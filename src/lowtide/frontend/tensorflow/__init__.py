"""TensorFlow's graphs: nodes as in a GraphDef, and the kernels of their ops."""

from importlib import import_module
from typing import Final

from lowtide.frontend.tensorflow.graph_def import FunctionDef, NodeDef, compile_graph_def

__all__ = [
    "FunctionDef",
    "NodeDef",
    "arrays",
    "blocks",
    "colors",
    "compile_graph_def",
    "control",
    "decompositions",
    "detection",
    "elementwise",
    "factors",
    "fake_quantization",
    "gradients",
    "indexing",
    "lists",
    "lookup_tables",
    "network_gradients",
    "networks",
    "projection",
    "random",
    "reductions",
    "resizing",
    "segments",
    "shrinking_updates",
    "sources",
    "sparse",
    "special",
    "tensor_arrays",
    "transforms",
    "updates",
]


_KERNELS: Final = """
arrays blocks colors control decompositions detection elementwise factors fake_quantization
gradients indexing lists lookup_tables network_gradients networks projection random reductions
resizing segments shrinking_updates sources sparse special tensor_arrays transforms updates
"""

for _name in _KERNELS.split():
    import_module(f"lowtide.frontend.tensorflow.{_name}")
