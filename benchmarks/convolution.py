"""Convolutions and pooling beside XLA's, and beside the peak of the machine.

    python benchmarks/convolution.py [--threads N] [--rounds N] [--avx2] [NAME ...]
    PYTHONPATH=FOLDER python benchmarks/convolution.py --avx2 ...

Prints for each program the least microseconds of ours and of XLA:CPU's in rounds that alternate,
the ratio, and the part of the peak that ours reaches: the peak is that of a loop of fused
multiplications and additions on registers, which runs in the same rounds, times the threads. With
one thread the process keeps to one processor, so that XLA has one thread as well. NAMEs select by
how names of programs begin. With `--avx2` FOLDER is what `jaxlib_avx2.py` makes, whose library of
products has no AVX-512 either.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
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


class Case(NamedTuple):
    """A program: the shapes of its arguments, and the products that it adds up."""

    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    products: int = 0
    dtype: str = "float32"


def convolve(x: Any, w: Any, **how: Any) -> Any:
    """Convolve with the features last."""
    from jax import lax

    rank = x.ndim - 2
    axes = "DHW"[3 - rank :]
    numbers = ("N" + axes + "C", axes + "IO", "N" + axes + "C")
    strides = (how.pop("stride", 1),) * rank
    padding = how.pop("padding", "SAME")
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **how)


def gradient(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradient of a linear function by one of its two arguments."""

    def found(x: Any, w: Any, y: Any) -> Any:
        import jax

        return jax.vjp(function, x, w)[1](y)[number]

    return found


def images(
    batch: int,
    size: int,
    features: int,
    outputs: int,
    window: int = 3,
    stride: int = 1,
    groups: int = 1,
) -> dict[str, Case]:
    """Return a convolution of square images and its two gradients."""
    how = {"stride": stride, "feature_group_count": groups}
    places = -(-size // stride)
    x = (batch, size, size, features)
    w = (window, window, features // groups, outputs)
    y = (batch, places, places, outputs)
    products = batch * places * places * outputs * window * window * (features // groups)
    forward = partial(convolve, **how)
    return {
        "": Case(forward, [x, w], products),
        " by input": Case(gradient(0, forward), [x, w, y], products),
        " by filter": Case(gradient(1, forward), [x, w, y], products),
    }


def signals(**how: Any) -> dict[str, Case]:
    """Return a convolution of signals of 64 features and its two gradients."""
    import jax

    features = 64 // how.get("feature_group_count", 1)
    x, w = (8, 2048, 64), (how.pop("window", 3), features, 64)
    forward = partial(convolve, **how)
    arguments = [jax.ShapeDtypeStruct(s, "float32") for s in (x, w)]
    y = jax.eval_shape(forward, *arguments).shape
    taps = w[0] / (how.get("lhs_dilation") or (1,))[0]
    products = int(y[0] * y[1] * y[2] * taps * features)
    return {
        "": Case(forward, [x, w], products),
        " by input": Case(gradient(0, forward), [x, w, y], products),
        " by filter": Case(gradient(1, forward), [x, w, y], products),
    }


def pooled(kind: str, window: int, stride: int, padding: str) -> Callable[[Any], Any]:
    """Return a function that pools places of images."""
    from jax import lax

    sizes, steps = (1, window, window, 1), (1, stride, stride, 1)
    start, how = (-np.inf, lax.max) if kind == "max" else (0.0, lax.add)
    return lambda x: lax.reduce_window(x, start, how, sizes, steps, padding)


def pooled_gradient(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the gradient of pooling."""

    def found(x: Any, y: Any) -> Any:
        import jax

        return jax.vjp(function, x)[1](y)[0]

    return found


def with_relu(x: Any, w: Any, bias: Any, other: Any) -> Any:
    """A convolution of what a rectifier leaves, with bias, a residual and a rectifier."""
    import jax.numpy as jnp

    return jnp.maximum(convolve(jnp.maximum(x, 0), w) + bias + other, 0)


def cases() -> dict[str, Case]:
    """Return all programs by name."""
    found: dict[str, Case] = {}
    for name, group in {
        "3x3 56x56x64": images(1, 56, 64, 64),
        "3x3 28x28x128": images(1, 28, 128, 128),
        "3x3 14x14x256": images(1, 14, 256, 256),
        "3x3 7x7x512": images(1, 7, 512, 512),
        "3x3 b16 32x32x64": images(16, 32, 64, 64),
        "3x3 b16 16x16x128": images(16, 16, 128, 128),
        "3x3 b16 4x4x512": images(16, 4, 512, 512),
        "3x3 16x16x32": images(1, 16, 32, 32),
        "stem 7x7/2 224x224x3": images(1, 224, 3, 64, 7, 2),
        "stem 3x3 b16 64x64x3": images(16, 64, 3, 64),
        "few outputs 3x3 64x64x64 to 4": images(2, 64, 64, 4),
        "1x1 56x56x256 to 64": images(1, 56, 256, 64, 1),
        "1x1 14x14x256 to 1024": images(1, 14, 256, 1024, 1),
        "1x1/2 56x56x64 to 128": images(1, 56, 64, 128, 1, 2),
        "3x3/2 28x28x128 to 256": images(1, 28, 128, 256, 3, 2),
        "depthwise 112x112x32": images(1, 112, 32, 32, 3, 1, 32),
        "depthwise/2 56x56x144": images(1, 56, 144, 144, 3, 2, 144),
        "depthwise 5x5 14x14x480": images(1, 14, 480, 480, 5, 1, 480),
        "grouped 32x4 28x28x128": images(1, 28, 128, 128, 3, 1, 32),
        "signal": signals(padding="VALID"),
        "signal/3": signals(stride=3),
        "signal causal": signals(padding=[(8, 0)], rhs_dilation=(4,)),
        "signal transposed": signals(padding=[(2, 2)], lhs_dilation=(2,)),
        "signal depthwise": signals(window=5, feature_group_count=64),
        "signal grouped": signals(feature_group_count=2),
    }.items():
        found |= {name + suffix: case for suffix, case in group.items()}
    image = (8, 56, 56, 64)
    greatest, mean = pooled("max", 3, 2, "SAME"), pooled("add", 2, 2, "VALID")
    half = (8, 28, 28, 64)
    products = 56 * 56 * 64 * 64 * 9
    found |= {
        "pool max": Case(greatest, [image]),
        "pool mean": Case(mean, [image]),
        "pool max gradient": Case(pooled_gradient(greatest), [image, half]),
        "pool mean gradient": Case(pooled_gradient(mean), [image, half]),
        "fused 3x3": Case(
            with_relu, [(1, 56, 56, 64), (3, 3, 64, 64), (64,), (1, 56, 56, 64)], products
        ),
        "bf16 3x3 28x28x128": Case(
            convolve, [(1, 28, 28, 128), (3, 3, 128, 128)], 28 * 28 * 128 * 128 * 9, "bfloat16"
        ),
        "3d 3x3x3 16x28x28x32": Case(
            convolve, [(1, 16, 28, 28, 32), (3, 3, 3, 32, 32)], 16 * 28 * 28 * 32 * 32 * 27
        ),
    }
    return found


def compiled(
    function: Callable[..., Any], arguments: Sequence[Any], threads: int
) -> LinkedExecutable:
    """Return the native program of a function."""
    import jax

    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text("hlo")
    return LinkedExecutable(build(parse_hlo(text), CpuBackend(threads)).program)


def peak_loop() -> tuple[Callable[[], None], int]:
    """Return a function of one thread that only multiplies and adds, and its products."""
    target = host_target()
    lanes, chains, rounds = target.vector_bytes // 4, 12, 20000
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

    def run(keep: object = library) -> None:
        call(room.ctypes.data)

    return run, lanes * chains * rounds


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


def row(name: str, case: Case, threads: int, rounds: int) -> str:
    """Return the line of a program."""
    import jax

    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(x, np.float32).astype(case.dtype) for x in case.shapes]
    started = time.perf_counter()
    ours = compiled(case.function, arguments, threads)
    compiling = time.perf_counter() - started
    theirs = jax.jit(case.function, keep_unused=True)
    given = [jax.device_put(x) for x in arguments]
    expected = np.asarray(theirs(*given), np.float32)
    error = np.abs(np.asarray(ours(*arguments), np.float32) - expected).max()
    loop, products = peak_loop()
    calls = [lambda: ours(*arguments), lambda: jax.block_until_ready(theirs(*given)), loop]
    best = [1e9] * 3
    for _ in range(rounds):
        best = [min(t, seconds(call)) for t, call in zip(best, calls, strict=True)]
    us = [t * 1e6 for t in best]
    rate = products / best[2] * threads
    part = f"{case.products / best[0] / rate:5.2f}" if case.products else "     "
    return (
        f"{name:38} {us[0]:9.1f} {us[1]:9.1f} {us[1] / us[0]:7.2f}x {part} "
        f"{compiling * 1e3:7.0f} {error / max(1e-30, np.abs(expected).max()):.0e}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--avx2", action="store_true", help="code for AVX2 only, on both sides")
    given = parser.parse_args()
    if given.avx2:
        restrict_to_avx2()
    if given.threads == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{'':38} {'ours us':>9} {'XLA us':>9} {'ratio':>8} {'peak':>5} {'compile':>7} error")
    for name, case in cases().items():
        if not given.names or any(name.startswith(x) for x in given.names):
            print(row(name, case, given.threads, given.rounds), flush=True)


if __name__ == "__main__":
    main()
