"""Processors by name, for code that is to run elsewhere or on a graphics processor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir.gpu_names import EMULATED, GPU_ARCHITECTURES, GPU_TARGETS
from lowtide.llvm.target import AARCH64, Target, host_target, restricted

_LINUX: Final = "x86_64-unknown-linux-gnu"
_SECOND: Final = (
    "cmov",
    "cx16",
    "fxsr",
    "mmx",
    "popcnt",
    "sse",
    "sse2",
    "sse3",
    "sse4.1",
    "sse4.2",
)
_THIRD: Final = (*_SECOND, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "ssse3")
_FOURTH: Final = (*_THIRD, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")

NAMED_TARGETS: Final[Mapping[str, Target]] = {
    "x86-64": Target(_LINUX, "x86-64", ("cmov", "fxsr", "mmx", "sse", "sse2"), 16),
    "x86-64-v2": Target(_LINUX, "x86-64-v2", (*_SECOND, "ssse3"), 16),
    "x86-64-v3": Target(_LINUX, "x86-64-v3", tuple(sorted(_THIRD)), 32),
    "x86-64-v4": Target(_LINUX, "x86-64-v4", tuple(sorted(_FOURTH)), 64),
    "aarch64": AARCH64,
    "cortex-m4": Target("thumbv7em-none-eabi", "cortex-m4", ("vfp4d16sp",), 16),
    "cortex-m7": Target("thumbv7em-none-eabi", "cortex-m7", ("fp-armv8d16",), 16),
}
"""By name, from the least to the most that a processor can do, one family after the other."""

HOST_NAMES: Final = ("cpu", "cpu:avx2")
"""The processor that compiles, and the same with the features of an older one."""


def named_target(name: str) -> Target:
    """Return the processor of a name in `HOST_NAMES` or `NAMED_TARGETS`.

    Matrix tiles of the processor at hand are left out: a process has to ask its system for them.
    Raises ValueError for a name that is not known, and for "cpu:avx2" where there is none.
    """
    if name in HOST_NAMES:
        found = restricted(host_target(), "avx2" if name == "cpu:avx2" else "native")
        features = tuple([x for x in found.features if not x.startswith("amx")])
        return Target(found.triple, found.cpu, features, found.vector_bytes)
    if name not in NAMED_TARGETS:
        names = ", ".join([*HOST_NAMES, *NAMED_TARGETS])
        raise ValueError(f"no processor {name!r} to compile for; there are: {names}")
    return NAMED_TARGETS[name]


TRIPLE: Final = "nvptx64-nvidia-cuda"

DEFAULT_ARCHITECTURE: Final = "sm_90"
EMULATED_ARCHITECTURE: Final = "sm_90a"
"""What code is made for without a device, and for the emulated one, which has all there is."""

_VECTOR_BYTES: Final = 16
"""The widest access of a thread."""


def gpu_target(name: str) -> Target:
    """Return a target by name: "cuda:sm_90", or an architecture for one without.

    Raises ValueError for a name that is not known.
    """
    if name not in GPU_TARGETS:
        raise ValueError(f"no target {name!r}; there are: {', '.join(GPU_TARGETS)}")
    architecture = name.partition(":")[2]
    if architecture not in GPU_ARCHITECTURES:
        architecture = EMULATED_ARCHITECTURE if name == EMULATED else DEFAULT_ARCHITECTURE
    return Target(TRIPLE, architecture, (), _VECTOR_BYTES)
