"""Names of graphics processors as targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GPU_PREFIX: Final = "cuda"
"""The name of a graphics processor, and how the names of its kinds begin."""

GPU_ARCHITECTURES: Final = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
"""The architectures that code can be made for. sm_90a is sm_90 with what runs on it alone."""

SHARED_BYTES: Final[Mapping[str, int]] = {
    "sm_80": 163 << 10,
    "sm_86": 99 << 10,
    "sm_89": 99 << 10,
    "sm_90": 227 << 10,
    "sm_90a": 227 << 10,
    "sm_100": 227 << 10,
    "sm_120": 99 << 10,
}
"""Bytes of shared memory that a block has at most, by architecture, if its launch asks for them."""

EMULATED: Final = f"{GPU_PREFIX}:emulated"
"""A graphics processor whose kernels, memory and streams are emulated on this host."""

GPU_TARGETS: Final = (
    GPU_PREFIX,
    EMULATED,
    *[f"{GPU_PREFIX}:{architecture}" for architecture in GPU_ARCHITECTURES],
)
"""The graphics processors that programs run on; the first is whichever is there."""


def is_gpu_target(name: str) -> bool:
    """Return whether the name of a target is that of a graphics processor, known or not."""
    return name.partition(":")[0] == GPU_PREFIX
