"""ONNX models as programs: `InferenceSession` runs one, `read_module` gives its module.

`Backend` is for ONNX's own tests.
"""

from lowtide.frontend.onnx.module import read_module
from lowtide.onnx.backend import OnnxBackend as Backend
from lowtide.onnx.binding import IOBinding
from lowtide.onnx.session import InferenceSession, NodeArg

__all__ = ["Backend", "IOBinding", "InferenceSession", "NodeArg", "read_module"]
