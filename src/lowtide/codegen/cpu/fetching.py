"""Prefetch distances by processor, for kernels through which results or sums stream."""

from __future__ import annotations

from typing import Final

from lowtide.llvm.target import Target
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Fetching:
    """How far ahead of what is read lies what is asked for, in bytes.

    `arrays` of an array that is read from end to end while results are stored, `sums` where nothing
    is stored; these come into the first cache if a vector takes `busy` cycles to compute, else into
    the second. `panels` of steps that follow each other, `strips` of each of some runs that are
    read side by side. `lines` of 64 bytes of each of many columns. Panels and lines come into cache
    `cache`.
    """

    arrays: int
    sums: int
    busy: float
    panels: int
    strips: int
    lines: int
    cache: int


_FAR: Final = Fetching(8192, 2048, 10.0, 4096, 1024, 2, 2)
"""Fastest on Intel's cores, which are slow to see that an array is read on beyond a page."""

_NEAR: Final = Fetching(4096, 2048, 0.0, 4096, 512, 4, 2)
"""Fastest on AMD's Zen, where the second cache fetches arrays ahead by itself."""

_OF_ZEN: Final = "clzero"
"""A feature that no other processors have."""

_OF_ZEN_5: Final = "avx512vp2intersect"
"""A feature that Zen has from the fifth generation on, with whole vectors of 64 bytes."""


def fetching_for(target: Target) -> Fetching:
    """Return how far ahead memory is asked for on a processor."""
    return _NEAR if target.has(_OF_ZEN) else _FAR


def has_halved_vectors(target: Target) -> bool:
    """Whether a product of vectors of 64 bytes takes two turns, as on AMD's Zen 4."""
    return target.has(_OF_ZEN) and target.vector_bytes == 64 and not target.has(_OF_ZEN_5)


def has_quick_division(target: Target) -> bool:
    """Whether vectors of 64 bytes are divided as fast as they come from a first cache."""
    return target.vector_bytes == 64 and target.has(_OF_ZEN) and target.has(_OF_ZEN_5)
