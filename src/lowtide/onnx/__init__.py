"""ONNX models as programs: `InferenceSession` runs one, `read_module` gives its module.

`Backend` is for ONNX's own tests. The names of ONNX Runtime's that its callers use are here too.
"""

from lowtide.frontend.onnx.module import read_module
from lowtide.onnx.backend import OnnxBackend as Backend
from lowtide.onnx.binding import IOBinding
from lowtide.onnx.description import ModelMetadata, NodeArg
from lowtide.onnx.session import InferenceSession
from lowtide.onnx.settings import (
    PROVIDER,
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)

__all__ = [
    "Backend",
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "RunOptions",
    "SessionOptions",
    "get_available_providers",
    "get_device",
    "read_module",
]


def get_available_providers() -> list[str]:
    """Return the providers that there are, by ONNX Runtime's names."""
    return [PROVIDER]


def get_device() -> str:
    """Return the device that models run on."""
    return "CPU"
