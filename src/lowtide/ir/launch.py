"""Kernels of a graphics processor: functions that a grid of threads runs, one after the other."""

from __future__ import annotations

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class GridLaunch:
    """One function, run by `blocks` blocks of `threads` threads each.

    `function` is the symbol of `void (ptr, ptr, ...)`, which gets the addresses of the operands'
    arrays, depth first, then of the results', then of the scratch. Blocks run in any order.
    """

    function: str
    blocks: int
    threads: int


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """A kernel: launches, each of which begins when the one before is done.

    `template` is the name of what wrote it, `buffers` the number of its operands and results, and
    `scratch_bytes` is how much scratch it needs.
    """

    template: str
    launches: tuple[GridLaunch, ...]
    buffers: int
    scratch_bytes: int = 0
