"""Matrix products beside XLA's, and beside the peak of the machine.

    python benchmarks/gemm.py [--threads N] [--rounds N] [--avx2] [NAME ...]
    PYTHONPATH=FOLDER python benchmarks/gemm.py --avx2 ...

Prints for each product the least microseconds of a call of ours and of XLA:CPU's, in slices that
alternate, their ratio, and the part of the peak that ours reaches. The peak is that of a loop of
fused multiplications and additions of f32 in registers, the best of all slices of the run, times
the threads; narrower types may exceed it. A product that is bound by memory shows GB/s of its
operands as well. With one thread the process keeps to one processor, so that XLA has one thread
too, and time is that of the processor, which other work changes less. NAMEs select by how names of
products begin. With `--avx2` FOLDER is what `jaxlib_avx2.py` makes, whose library of products has
no AVX-512 either.

Operands are named by their dimensions: b batch, m rows, n columns, k what is contracted.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target
from lowtide.runtime.cpu.call import LinkedExecutable
from vs_xla import restrict_to_avx2

SLICE = 2e-3
"""Seconds of one slice, at least."""


class Product(NamedTuple):
    """A product: the dimensions of both operands by letters, sizes, and the type of operands."""

    operands: str
    sizes: tuple[int, int, int, int]
    dtype: str = "float32"
    result: str = ""

    @property
    def extent(self) -> dict[str, int]:
        """The size of each dimension."""
        return dict(zip("bmnk", self.sizes, strict=True))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The sizes of both operands."""
        return [tuple([self.extent[x] for x in part]) for part in self.operands.split(",")]

    @property
    def count(self) -> int:
        """The number of multiplications."""
        return prod([self.extent[x] for x in set(self.operands) - {","}])

    @property
    def name(self) -> str:
        """What stands in the table."""
        sizes = "x".join([str(self.extent[x]) for x in "bmnk" if x in self.operands])
        return f"{self.dtype} {self.operands} {sizes}"

    def multiplied(self, x: Any, y: Any) -> Any:
        """Return the product, in JAX."""
        from jax import lax

        lhs, rhs = self.operands.split(",")
        inner = ((lhs.index("k"),), (rhs.index("k"),))
        batch = ((0,), (0,)) if "b" in lhs else ((), ())
        result = self.result or self.dtype
        return lax.dot_general(x, y, (inner, batch), preferred_element_type=result)


def products() -> Iterator[Product]:
    """Yield what is measured."""
    for size in (16, 32, 64, 100, 128, 256, 384, 512, 768, 1024):
        yield Product("mk,kn", (1, size, size, size))
    for order in ("mk,nk", "km,kn", "km,nk"):
        for size in (100, 512, 1024):
            yield Product(order, (1, size, size, size))
    for m in (1, 2, 4, 8, 16, 32, 64):
        yield Product("mk,kn", (1, m, 768, 3072))
        yield Product("mk,nk", (1, m, 768, 3072))
    yield Product("mk,kn", (1, 1, 4096, 4096))
    yield Product("mk,kn", (1, 4096, 1, 4096))
    yield Product("mk,kn", (1, 4096, 8, 64))
    yield Product("mk,kn", (1, 4096, 64, 9))
    yield Product("km,kn", (1, 64, 64, 16384))
    yield Product("bmk,bnk", (24, 128, 128, 64))
    yield Product("bmk,bkn", (24, 128, 64, 128))
    yield Product("bmk,bkn", (256, 16, 16, 16))
    yield Product("mk,kn", (1, 128, 3072, 768))
    for dtype in ("bfloat16", "int8", "float16"):
        result = "int32" if dtype == "int8" else ""
        for order in ("mk,kn", "mk,nk", "km,kn"):
            yield Product(order, (1, 256, 256, 256), dtype, result)
        for size in (64, 512, 1024):
            yield Product("mk,kn", (1, size, size, size), dtype, result)
        yield Product("mk,kn", (1, 1, 768, 3072), dtype, result)
        yield Product("mk,nk", (1, 1, 768, 3072), dtype, result)


def peak_loop() -> Callable[[], float]:
    """Return a function that gives the multiplications a second of registers on one thread."""
    target = host_target()
    lanes, chains, rounds = target.vector_bytes // 4, 12, 4000
    fn = Function("peak", parameters(to="ptr"))
    type_ = f"<{lanes} x float>"
    places = [fn.gep("%to", i * lanes * 4) for i in range(chains)]
    start = [(type_, fn.load(type_, x, 4)) for x in places]
    with fn.loop(0, rounds, 1, start) as loop:
        loop.next = [fn.intrinsic("fma", type_, x, start[0][1], x) for x in loop.values]
    for x, place in zip(loop.results, places, strict=True):
        fn.store(type_, x, place, 4)
    library = Library([KernelCompiler(target).object_code(module_text([fn]))], ["peak"], target)
    room = np.zeros(lanes * chains, np.float32)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library["peak"])

    def run(keep: object = library) -> float:
        start = time.perf_counter()
        call(room.ctypes.data)
        return lanes * chains * rounds / (time.perf_counter() - start)

    return run


def slice_of(call: Callable[[], Any], threads: int) -> float:
    """Return the least time of a call within a slice, in seconds."""
    clock = time.process_time if threads == 1 else time.perf_counter
    least, end = 1e9, time.perf_counter() + SLICE
    while True:
        start = clock()
        call()
        least = min(least, clock() - start)
        if time.perf_counter() >= end:
            return least


def operands_of(product: Product) -> list[Any]:
    """Return random operands of a product."""
    rng = np.random.default_rng(0)
    if product.dtype == "int8":
        return [rng.integers(-99, 99, x).astype(np.int8) for x in product.shapes]
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if product.dtype == "bfloat16" else np.dtype(product.dtype)
    return [rng.standard_normal(x, np.float32).astype(dtype) for x in product.shapes]


def measured(product: Product, threads: int, rounds: int) -> tuple[float, float, float, float]:
    """Return seconds of ours and of XLA, of compiling ours, and the relative error between both."""
    import jax

    operands = operands_of(product)
    theirs = jax.jit(product.multiplied)
    text = theirs.lower(*operands).as_text("hlo")
    started = time.process_time()
    program = build(parse_hlo(text), CpuBackend(threads)).program
    compiling = time.process_time() - started
    ours = LinkedExecutable(program)
    given = [jax.device_put(x) for x in operands]
    expected = np.asarray(theirs(*given)).astype(np.float64)
    error = np.abs(np.asarray(ours(*operands)).astype(np.float64) - expected).max()
    best = [1e9, 1e9]
    for _ in range(rounds):
        best[0] = min(best[0], slice_of(lambda: ours(*operands), threads))
        taken = slice_of(lambda: jax.block_until_ready(theirs(*given)), threads)
        best[1] = min(best[1], taken)
    return best[0], best[1], compiling, float(error / max(1e-30, np.abs(expected).max()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--avx2", action="store_true", help="code for AVX2 only, on both sides")
    given = parser.parse_args()
    if given.avx2:
        restrict_to_avx2()
    if given.threads == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    loop = peak_loop()
    peak = max([loop() for _ in range(200)])
    head = ("ours us", "XLA us", "ratio", "peak", "GB/s", "ms", "error")
    print(f"{'':34}" + "".join([f"{x:>9}" for x in head]))
    for product in products():
        if given.names and not any(product.name.startswith(x) for x in given.names):
            continue
        ours, theirs, compiling, error = measured(product, given.threads, given.rounds)
        peak = max(peak, *[loop() for _ in range(20)])
        nbytes = sum([x.nbytes for x in operands_of(product)])
        print(
            f"{product.name:34}{ours * 1e6:9.1f}{theirs * 1e6:9.1f}{theirs / ours:9.2f}"
            f"{product.count / ours / peak / given.threads:9.2f}{nbytes / ours / 1e9:9.1f}"
            f"{compiling * 1e3:9.0f}{error:9.0e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
