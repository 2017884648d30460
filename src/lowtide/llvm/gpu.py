"""Graphics processors as LLVM and ptxas name them."""

from __future__ import annotations

from typing import Final

from lowtide.ir.gpu_names import GPU_ARCHITECTURES, GPU_TARGETS
from lowtide.llvm.target import Target

TRIPLE: Final = "nvptx64-nvidia-cuda"

DEFAULT_ARCHITECTURE: Final = "sm_90"

_VECTOR_BYTES: Final = 16
"""The widest access of a thread."""


def gpu_target(name: str) -> Target:
    """Return a target by name: "cuda:sm_90", or the default architecture for one without.

    Raises ValueError for a name that is not known.
    """
    if name not in GPU_TARGETS:
        raise ValueError(f"no target {name!r}; there are: {', '.join(GPU_TARGETS)}")
    architecture = name.partition(":")[2]
    known = architecture in GPU_ARCHITECTURES
    return Target(TRIPLE, architecture if known else DEFAULT_ARCHITECTURE, (), _VECTOR_BYTES)
