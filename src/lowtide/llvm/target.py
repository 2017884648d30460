"""The machine that code is made for: its features, and the width of its vectors."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from lowtide.llvm.host import host_facts
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A processor, as LLVM names it.

    `features` are LLVM's names of what it can do, sorted. `vector_bytes` is how wide vectors are.
    With `has_small_stack` scratch is never taken from it.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    has_small_stack: bool = False

    def has(self, feature: str) -> bool:
        """Whether it has a feature: "avx512f", "avx512bf16", "fma", "neon"."""
        return feature in self.features

    @property
    def feature_string(self) -> str:
        """The features as LLVM takes them, who knows those of a processor by its name, too."""
        without = [f"-{_SLOW}"] if self.triple.startswith("x86_64") else []
        return ",".join([*[f"+{x}" for x in self.features], *without])

    @property
    def has_narrow_addresses(self) -> bool:
        """Whether addresses have 32 bits."""
        return self.triple.startswith("thumb")

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.vector_bytes == 64 or self.triple.startswith("aarch64") else 16

    @property
    def near_bytes(self) -> int:
        """Bytes that stay in a core's first cache while as much as fits comes and goes beside them.

        Caches are those of the smaller cores that have such vectors: 48 KiB, and 32 KiB.
        """
        return 32 << 10 if self.vector_bytes == 64 else 24 << 10

    @property
    def stack_bytes(self) -> int:
        """Bytes of its scratch that a piece of work takes from the stack.

        Each piece takes the same ones, and so does the next kernel: they stay in the first cache.
        """
        return 0 if self.has_small_stack or self.has_narrow_addresses else self.near_bytes


_NEWER: Final = ("avx512", "avx10", "amx", "prefer-256-bit", "evex512", "avxvnni")
"""How the features begin that processors with AVX2 need not have: wide vectors, tiles, and more."""


_SLOW: Final = "sse4a"
"""A feature that is left alone: its instructions take bits out of a vector, in a hundred
nanoseconds where vectors of 32 bytes are in use (AMD Zen 3)."""

_pretended: Target | None = None


def host_target() -> Target:
    """Return the processor that runs this, or the one that it is taken for."""
    return _pretended or _found_host()


def lacking(target: Target, host: Target) -> list[str]:
    """Return the features of a target that this processor has not, which is taken for `host`."""
    has = {*host.features, *({_SLOW} & set(host_facts().features))}
    return [x for x in target.features if x not in has]


def pretended_host() -> Target | None:
    """Return the processor that this one is taken for, None where it is what it is."""
    return _pretended


def pretend_host(target: Target | None) -> None:
    """From now on this process, and those that compile for it, run on another processor.

    It has to do all that the other one does, since code for that one will run.
    """
    global _pretended
    _pretended = target


@cache
def _found_host() -> Target:
    found = host_facts()
    features = tuple([x for x in found.features if _allowed(x)])
    return Target(found.triple, found.cpu, features, _vector_bytes(found.triple, features))


_ARCH_PRCTL: Final = 158
_REQUEST_PERMISSION: Final = 0x1023
_TILE_DATA: Final = 18
"""Linux on x86-64: the system call that asks for the state of matrix tiles, which it may refuse."""


def _allowed(feature: str) -> bool:
    """Whether code may use a feature that this processor has."""
    return feature != _SLOW and (not feature.startswith("amx") or _has_tiles())


@cache
def _has_tiles() -> bool:
    call = ctypes.CDLL(None).syscall
    return bool(call(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0)


def _vector_bytes(triple: str, features: tuple[str, ...]) -> int:
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(features):
        return 64
    return 32 if "avx2" in features and "fma" in features else 16


def restricted(target: Target, name: str) -> Target:
    """The same processor with the features of an older one, "avx2"; itself if it has no others.

    Raises ValueError for a name other than "avx2" and "native", and without these features.
    """
    if name == "native":
        return target
    if name != "avx2":
        raise ValueError(f"no target {name!r}; there are: native, avx2")
    features = tuple([x for x in target.features if not x.startswith(_NEWER)])
    if not {"avx2", "fma"} <= set(features):
        raise ValueError(f"{target.cpu} has no avx2")
    if features == target.features:
        return target
    return Target(target.triple, "x86-64-v3", features, 32)


AARCH64: Final = Target(
    "aarch64-unknown-linux-gnu", "generic", ("fp-armv8", "fullfp16", "neon"), 16
)
"""A 64-bit ARM processor with NEON, for which objects can be made on any machine."""
