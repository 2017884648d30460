"""ONNX models as programs: `InferenceSession` runs one, `read_module` gives its module.

`Backend` is for ONNX's own tests. The names of ONNX Runtime's that its callers use are here too.
Both are imported when they are first asked for; `Backend` takes the package onnx.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from lowtide.frontend.onnx.module import read_module
    from lowtide.onnx.backend import OnnxBackend as Backend

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


_LATE: Final = {
    "Backend": ("lowtide.onnx.backend", "OnnxBackend"),
    "read_module": ("lowtide.frontend.onnx.module", "read_module"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return a late name; raises AttributeError for one that there is not."""
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home, wanted = _LATE[name]
        return getattr(import_module(home), wanted)
