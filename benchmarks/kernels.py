"""Single kernels beside XLA's: reductions, rows, scans, attention.

    python benchmarks/kernels.py [--threads N] [--rounds N] [NAME ...]

Prints for each kernel the least microseconds of ours and of XLA:CPU's in rounds that alternate, the
ratio, the bytes of arguments and results per second, and what part of that of a copy it is: of our
kernel that negates an array of as many bytes, which runs in the same rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.runtime.cpu.call import LinkedExecutable

Function = Callable[..., Any]


def softmax(x: Any) -> Any:
    """Softmax along the last dimension."""
    return jax.nn.softmax(x, -1)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Layer normalization along the last dimension."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def rms_norm(x: Any, scale: Any) -> Any:
    """Normalization by the root of the mean square along the last dimension."""
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * scale


def statistics(x: Any) -> Any:
    """Sum and sum of squares of each channel."""
    return x.sum((0, 1, 2)), jnp.square(x).sum((0, 1, 2))


def statistics_of_planes(x: Any) -> Any:
    """Sum and sum of squares of each channel, where channels come before places."""
    return x.sum((0, 2, 3)), jnp.square(x).sum((0, 2, 3))


def gradient_of_bias(x: Any, gradient: Any) -> Any:
    """Gradient behind a rectifier, and its sum along columns."""
    passed = jnp.where(x > 0, gradient, 0)
    return passed, passed.sum(0)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of several heads."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    n = q.shape[1]
    scores = jnp.where(jnp.tri(n, dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


BIG = (8192, 2048)

CASES: dict[str, tuple[Function, Sequence[tuple[int, ...]], str]] = {
    "sum": (lambda x: x.sum(), [(1 << 24,)], "float32"),
    "sum small": (lambda x: x.sum(), [(1 << 16,)], "float32"),
    "sum rows": (lambda x: x.sum(-1), [BIG], "float32"),
    "sum rows small": (lambda x: x.sum(-1), [(1024, 256)], "float32"),
    "sum rows of 10": (lambda x: x.sum(-1), [(100000, 10)], "float32"),
    "sum columns": (lambda x: x.sum(0), [BIG], "float32"),
    "sum columns small": (lambda x: x.sum(0), [(512, 768)], "float32"),
    "sum few columns": (lambda x: x.sum(0), [(1 << 18, 16)], "float32"),
    "sum middle": (lambda x: x.sum(1), [(64, 512, 256)], "float32"),
    "bf16 sum rows": (lambda x: x.sum(-1), [BIG], "bfloat16"),
    "max rows": (lambda x: x.max(-1), [BIG], "float32"),
    "argmax rows": (lambda x: jnp.argmax(x, -1), [BIG], "float32"),
    "argmax rows small": (lambda x: jnp.argmax(x, -1), [(1024, 1000)], "float32"),
    "argmax columns": (lambda x: jnp.argmax(x, 0), [(2048, 2048)], "float32"),
    "softmax": (softmax, [BIG], "float32"),
    "softmax 1024x256": (softmax, [(1024, 256)], "float32"),
    "softmax 256x1024": (softmax, [(256, 1024)], "float32"),
    "softmax 1000x100": (softmax, [(1000, 100)], "float32"),
    "softmax 4096x10": (softmax, [(4096, 10)], "float32"),
    "softmax bf16": (softmax, [(1024, 1024)], "bfloat16"),
    "log softmax": (lambda x: jax.nn.log_softmax(x, -1), [(256, 1024)], "float32"),
    "layer norm": (layer_norm, [BIG, BIG[1:], BIG[1:]], "float32"),
    "layer norm 128x768": (layer_norm, [(128, 768), (768,), (768,)], "float32"),
    "rms norm": (rms_norm, [BIG, BIG[1:]], "float32"),
    "rms norm 128x768": (rms_norm, [(128, 768), (768,)], "float32"),
    "variance rows": (lambda x: x.var(-1), [(2048, 1024)], "float32"),
    "statistics": (statistics, [(8, 56, 56, 64)], "float32"),
    "statistics 7x7": (statistics, [(8, 7, 7, 512)], "float32"),
    "statistics of planes": (statistics_of_planes, [(8, 64, 56, 56)], "float32"),
    "gradient of bias": (gradient_of_bias, [(4096, 1024), (4096, 1024)], "float32"),
    "cumsum rows": (lambda x: jnp.cumsum(x, -1), [(1024, 1024)], "float32"),
    "cumsum columns": (lambda x: jnp.cumsum(x, 0), [(1024, 1024)], "float32"),
    "cumsum": (lambda x: jnp.cumsum(x), [(1 << 20,)], "float32"),
    "attention 256": (attention, [(2, 256, 8, 64)] * 3, "float32"),
    "attention 1024": (attention, [(1, 1024, 8, 64)] * 3, "float32"),
    "attention bf16": (attention, [(1, 512, 8, 64)] * 3, "bfloat16"),
}


def compiled(function: Function, arguments: Sequence[Any], threads: int) -> LinkedExecutable:
    """Return the native program of a function."""
    text = jax.jit(function).lower(*arguments).as_text("hlo")
    return LinkedExecutable(build(parse_hlo(text), CpuBackend(threads)).program)


def seconds(call: Callable[[], Any], least: float = 2e-3) -> float:
    """Return the time of a call, the mean of as many as take `least` seconds."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        taken = time.perf_counter() - start
        if taken >= least or count >= 1000:
            return taken / count
        count *= 4


def row(name: str, threads: int, rounds: int) -> str:
    """Return the line of a kernel."""
    function, shapes, dtype = CASES[name]
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(x, np.float32).astype(dtype) for x in shapes]
    ours = compiled(function, arguments, threads)
    theirs = jax.jit(function)
    results = jax.tree.leaves(jax.block_until_ready(theirs(*arguments)))
    moved = sum([x.nbytes for x in (*arguments, *results)])
    given = [jax.device_put(x) for x in arguments]
    plain = np.ones(max(moved // 8, 1), np.float32)
    copy = compiled(lambda x: -x, [plain], threads)
    calls = [
        lambda: ours(*arguments),
        lambda: jax.block_until_ready(theirs(*given)),
        lambda: copy(plain),
    ]
    best = [1e9] * 3
    for _ in range(rounds):
        best = [min(t, seconds(call)) for t, call in zip(best, calls, strict=True)]
    us = [t * 1e6 for t in best]
    rate = moved / best[0] / 1e9
    return (
        f"{name:24} {us[0]:10.1f} {us[1]:10.1f} {us[1] / us[0]:7.2f} {rate:8.1f}"
        f" {best[2] / best[0]:7.2f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="how names of kernels begin")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"{'kernel':24} {'us':>10} {'XLA us':>10} {'ratio':>7} {'GB/s':>8} {'of copy':>7}")
    for name in CASES:
        if not options.names or any(name.startswith(x) for x in options.names):
            print(row(name, options.threads, options.rounds), flush=True)


if __name__ == "__main__":
    main()
