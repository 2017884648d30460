"""ONNX models as programs: `InferenceSession` runs one, `Backend` is for ONNX's own tests."""

from lowtide.onnx.backend import Backend
from lowtide.onnx.binding import IOBinding
from lowtide.onnx.session import InferenceSession, NodeArg

__all__ = ["Backend", "IOBinding", "InferenceSession", "NodeArg"]
