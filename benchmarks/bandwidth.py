"""Kernels that are bound by memory, beside one that only copies and one that only reads.

    python benchmarks/bandwidth.py [--threads N] [--rounds N] [--megabytes N] [--avx2] [NAME ...]

Prints for each kernel the least time, the bytes of its large arguments and results per second, and
what part that is of the rate of our kernel that negates an array, and of a loop that only reads
one, in LLVM text, with the prefetch that is best here. All run in the same rounds, one after the
other. What reads and writes should be compared with the copy, what only reads with the reading.

Arrays have 8 times the bytes of the last cache, or as many as fit in half of the free memory,
results included; the first line tells. With one thread the time is that of the processor, so that
other work on the machine counts only for the memory that it moves; else it is that of the clock.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernels import compiled, layer_norm, rms_norm, softmax
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target, pretend_host, restricted

ROW = 1024
"""Elements of a row of those kernels that run along rows."""

DEPTH = 4096
"""Elements of a vector that is multiplied by a matrix."""

DISTANCES = (0, 512, 1024, 2048, 4096)
"""Bytes ahead at which the loop that only reads has its prefetches."""

COPY, READ = "negate (copy)", "read only"


def _rows(x: Any) -> Any:
    return x.reshape(-1, ROW)


def _wide(x: Any) -> Any:
    return x.reshape(-1, DEPTH)


def _tall(x: Any) -> Any:
    return x.reshape(DEPTH, -1)


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel of one large array, of a vector of DEPTH elements too where `has_vector`."""

    function: Callable[..., Any]
    form: Callable[[Any], Any] = _rows
    dtype: str = "float32"
    writes: bool = True
    has_vector: bool = False


def _matrix(form: Callable[[Any], Any], dtype: str) -> Case:
    def product(w: Any, v: Any) -> Any:
        return v @ (w.T if form is _wide else w)

    return Case(product, form, dtype, writes=False, has_vector=True)


CASES: dict[str, Case] = {
    COPY: Case(lambda x: -x),
    "exp": Case(jnp.exp),
    "tanh": Case(jnp.tanh),
    "gelu": Case(jax.nn.gelu),
    "softmax": Case(softmax),
    "log softmax": Case(lambda x: jax.nn.log_softmax(x, -1)),
    "layer norm": Case(lambda x: layer_norm(x, 1.0, 0.0)),
    "rms norm": Case(lambda x: rms_norm(x, 1.0)),
    "sum": Case(lambda x: x.sum(), writes=False),
    "sum rows": Case(lambda x: x.sum(-1), writes=False),
    "sum columns": Case(lambda x: x.sum(0), writes=False),
    "max rows": Case(lambda x: x.max(-1), writes=False),
    "argmax rows": Case(lambda x: jnp.argmax(x, -1), writes=False),
    "variance rows": Case(lambda x: x.var(-1), writes=False),
    "matvec [n,k] f32": _matrix(_wide, "float32"),
    "matvec [k,n] f32": _matrix(_tall, "float32"),
    "matvec [n,k] bf16": _matrix(_wide, "bfloat16"),
    "matvec [k,n] bf16": _matrix(_tall, "bfloat16"),
}


def reader(ahead: int) -> Function:
    """Return a function that adds up floats from an address on, a multiple of 64 of them."""
    fn = Function("read", parameters(source="ptr", count="i64", to="ptr"))
    type_, vectors = "<16 x float>", 4
    zeros = [(type_, "zeroinitializer")] * vectors
    with fn.loop(0, "%count", 16 * vectors, zeros) as loop:
        for number in range(vectors):
            here = fn.gep("%source", fn.add(loop.index, 16 * number), "float")
            if ahead:
                there = fn.op(f"getelementptr i8, ptr {here}, i64 {ahead}")
                fn.prefetch(there, 1)
            loaded = fn.load(type_, here, 4)
            total = loop.values[number]
            loop.next[number] = fn.op(f"fadd {type_} {total}, {loaded}")
    for number, total in enumerate(loop.results):
        fn.store(type_, total, fn.gep("%to", 64 * number), 4)
    return fn


def reading(x: np.ndarray, ahead: int, pool: ThreadPoolExecutor, threads: int) -> Callable[[], Any]:
    """Return a call that reads an array, in one part for each thread."""
    target = host_target()
    library = Library(
        (KernelCompiler(target).object_code(module_text([reader(ahead)])),), ("read",), target
    )
    types = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    run = ctypes.CFUNCTYPE(None, *types)(library["read"])
    each = x.size // threads // 64 * 64
    totals = [np.zeros(64, np.float32) for _ in range(threads)]

    def part(number: int) -> None:
        start = x.ctypes.data + 4 * each * number
        run(start, each, totals[number].ctypes.data)

    def call() -> Library:
        if threads == 1:
            part(0)
        else:
            list(pool.map(part, range(threads)))
        return library

    return call


def last_cache() -> int:
    """Return the bytes of the last cache, 32 MiB where the system does not tell."""
    paths = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max([int(x.read_text().strip().rstrip("K")) << 10 for x in paths], default=32 << 20)


def array(nbytes: int, dtype: str) -> np.ndarray:
    """Return an array of normally distributed numbers, which repeat, as long as whole rows are."""
    rng = np.random.default_rng(0)
    some = rng.standard_normal(1 << 20, np.float32).astype(dtype)
    count = nbytes // some.dtype.itemsize // (DEPTH * ROW) * DEPTH * ROW
    found = np.empty(max(count, DEPTH * ROW), some.dtype)
    for start in range(0, found.size, some.size):
        part = found[start : start + some.size]
        part[:] = some[: part.size]
    return found


def calls_of(
    names: list[str], nbytes: int, threads: int, pool: ThreadPoolExecutor
) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return for each name a call and the bytes that it moves."""
    arrays: dict[str, np.ndarray] = {}
    found: dict[str, tuple[Callable[[], Any], int]] = {}
    for name in names:
        case = CASES[name]
        if case.dtype not in arrays:
            arrays[case.dtype] = array(nbytes, case.dtype)
        x = case.form(arrays[case.dtype])
        given = [x, x.ravel()[:DEPTH].reshape(1, DEPTH).copy()] if case.has_vector else [x]
        specs = [jax.ShapeDtypeStruct(y.shape, y.dtype) for y in given]
        program = compiled(case.function, specs, threads)
        found[name] = (
            (lambda program=program, given=given: program(*given)),
            x.nbytes * (1 + case.writes),
        )
    plain = arrays["float32"]
    for ahead in DISTANCES:
        found[f"{READ} {ahead}"] = reading(plain, ahead, pool, threads), plain.nbytes
    return found


def measured(
    calls: dict[str, tuple[Callable[[], Any], int]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Return the least seconds of each call; a result is freed before the next call."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, (call, _) in calls.items():
            start = clock()
            result = call()
            best[name] = min(best[name], clock() - start)
            del result
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="how names of kernels begin")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--avx2", action="store_true", help="our kernels in code for AVX2 only")
    parser.add_argument("--megabytes", type=int, default=0, help="bytes of an array, in 2**20")
    options = parser.parse_args()
    if options.avx2:
        pretend_host(restricted(host_target(), "avx2"))
    wanted, free = 8 * last_cache(), os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    nbytes = options.megabytes << 20 or min(wanted, free // 4)
    why = "given" if options.megabytes else "8 last caches" if nbytes == wanted else "free memory"
    print(f"arrays of {nbytes / 1e9:.2f} GB ({why}; 8 last caches are {wanted / 1e9:.2f} GB)")
    names = [
        x for x in CASES if x == COPY or not options.names or x.startswith(tuple(options.names))
    ]
    with ThreadPoolExecutor(options.threads) as pool:
        calls = calls_of(names, nbytes, options.threads, pool)
        clock = time.thread_time if options.threads == 1 else time.perf_counter
        best = measured(calls, options.rounds, clock)
    rates = {x: calls[x][1] / best[x] / 1e9 for x in calls}
    reads = max([x for x in calls if x.startswith(READ)], key=lambda x: rates[x])
    print(f"{'kernel':20} {'ms':>9} {'GB/s':>7} {'of copy':>8} {'of read':>8}")
    for name in [*names, reads]:
        ratios = f"{rates[name] / rates[COPY]:8.2f} {rates[name] / rates[reads]:8.2f}"
        print(f"{name:20} {best[name] * 1e3:9.2f} {rates[name]:7.2f} {ratios}")


if __name__ == "__main__":
    main()
