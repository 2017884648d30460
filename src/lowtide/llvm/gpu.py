"""Graphics processors as LLVM and ptxas name them."""

from __future__ import annotations

from typing import Final

from lowtide.llvm.target import Target

TRIPLE: Final = "nvptx64-nvidia-cuda"

PREFIX: Final = "cuda"
"""How the names of these targets begin: "cuda", or "cuda:sm_90"."""

ARCHITECTURES: Final = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
"""The architectures that code can be made for. sm_90a is sm_90 with what runs on it alone."""

DEFAULT_ARCHITECTURE: Final = "sm_90"

_VECTOR_BYTES: Final = 16
"""The widest access of a thread."""


def is_gpu(name: str) -> bool:
    """Whether the name of a target is that of a graphics processor, known or not."""
    return name.partition(":")[0] == PREFIX


def gpu_target(name: str) -> Target:
    """Return a target by name: "cuda:sm_90", or "cuda" for the default architecture.

    Raises ValueError for a name that is not known.
    """
    prefix, _, architecture = name.partition(":")
    architecture = architecture or DEFAULT_ARCHITECTURE
    if prefix != PREFIX or architecture not in ARCHITECTURES:
        known = ", ".join([f"{PREFIX}:{x}" for x in ARCHITECTURES])
        raise ValueError(f"no target {name!r}; there are: {known}")
    return Target(TRIPLE, architecture, (), _VECTOR_BYTES)
