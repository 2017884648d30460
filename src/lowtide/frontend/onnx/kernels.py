"""The kernels of the ops of ONNX: importing this has all of them in the table."""

from importlib import import_module
from typing import Final

_KERNELS: Final = """
arrays attention control dynamic_quantization elementwise features fused_attention fused_layers
grouped_attention indexing linear linear_attention microsoft networks packed_tables pooling
quantization quantized_images quantized_layers recurrent reductions resizing retired rotary
runtime_arrays signal training trees
"""

for _name in _KERNELS.split():
    import_module(f"lowtide.frontend.onnx.{_name}")
