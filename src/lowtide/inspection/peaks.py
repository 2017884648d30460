"""The best that this machine can do, measured: arithmetic in registers, and copying memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from time import perf_counter
from typing import Any, Final

import numpy as np

from lowtide.codegen.cpu.peaks import CHAINS, peaks_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import Target
from lowtide.records import dataclass

COPIED_BYTES: Final = 64 << 20
"""The bytes that each thread copies, from memory to memory."""

ROUNDS: Final = 6
"""How often each is measured; the best counts."""

SHORTEST_SECONDS: Final = 5e-3
"""How long one round of arithmetic takes at least."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """What a number of threads does together in a second.

    `flops` are of multiply-adds of f32, two each; `copied_bytes` are read plus written, by plain
    loads and stores on arrays of `COPIED_BYTES` bytes for each thread.
    """

    threads: int
    flops: float
    copied_bytes: float


@cache
def peaks(threads: int, target: Target) -> Peaks:
    """Return the peaks of this machine, measured once for each number of threads in a process."""
    code = KernelCompiler(target).object_code(peaks_text(target))
    library = Library([code], ["multiply_add", "copy"], target)
    word = ctypes.c_void_p
    prototype = ctypes.CFUNCTYPE(None, word, word, ctypes.c_int64)
    multiply_add = prototype(library["multiply_add"])
    copy = prototype(library["copy"])
    with ThreadPoolExecutor(threads) as pool:
        return Peaks(
            threads,
            _most_flops(multiply_add, pool, threads, target),
            _most_bytes(copy, pool, threads),
        )


def _most_flops(call: Any, pool: ThreadPoolExecutor, threads: int, target: Target) -> float:
    lanes = target.vector_bytes // 4
    cells = [np.full(2 * lanes, 0.5, np.float32) for _ in range(threads)]
    count, seconds = 1 << 12, 0.0
    while seconds < SHORTEST_SECONDS:
        count *= 2
        start = perf_counter()
        call(cells[0].ctypes.data, cells[0].ctypes.data, count)
        seconds = perf_counter() - start

    def work(number: int) -> None:
        call(cells[number].ctypes.data, cells[number].ctypes.data, count)

    return threads * 2.0 * lanes * CHAINS * count / _best(work, pool, threads)


def _most_bytes(call: Any, pool: ThreadPoolExecutor, threads: int) -> float:
    arrays = [np.ones((2, COPIED_BYTES), np.uint8) for _ in range(threads)]

    def work(number: int) -> None:
        source, target = arrays[number]
        call(source.ctypes.data, target.ctypes.data, COPIED_BYTES)

    return threads * 2.0 * COPIED_BYTES / _best(work, pool, threads)


def _best(work: Callable[[int], None], pool: ThreadPoolExecutor, threads: int) -> float:
    """Return the least seconds in which all threads, which begin at once, do their work."""
    barrier = Barrier(threads)

    def timed(number: int) -> tuple[float, float]:
        barrier.wait()
        start = perf_counter()
        work(number)
        return start, perf_counter()

    found = []
    for _ in range(ROUNDS):
        times = list(pool.map(timed, range(threads)))
        found.append(max([end for _, end in times]) - min([start for start, _ in times]))
    return min(found)
