"""Operations of JAX one by one, natively and by XLA:CPU, on one thread of one process.

Each line of the table beside this file is an expression of its arguments. Both sides get arrays of
JAX and take turns; compared is the CPU time of the process in the best of a few turns, so that
other work on the machine matters less. Ours makes arrays of NumPy.

    taskset -c 0 python benchmarks/single_operations.py [WORD ...]

runs the lines with one of these words in their names or expressions, without words all of them.
What is printed: seconds of a call, XLA's over ours, the same of the time to compile, and results
that are further apart than a few roundings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import exp, log
from pathlib import Path
from time import process_time
from typing import Any, Final

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

import lowtide

TURNS: Final = 6
TURN_SECONDS: Final = 0.03
APART: Final = 3e-5

TABLE: Final = Path(__file__).with_suffix(".txt")
"""Name, expression, arguments: `f` of normal numbers, `p` of positive ones, `i(n, below)`."""


def conv(x: Any, kernel: Any, stride: int = 1, groups: int = 1) -> Any:
    """Return the convolution of images NHWC with a kernel HWIO."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=numbers, feature_group_count=groups
    )


def adam(x: Any, gradient: Any, second: Any) -> Any:
    """Return what an optimizer updates."""
    second = 0.99 * second + 0.01 * gradient * gradient
    return x - 1e-3 * gradient / (jnp.sqrt(second) + 1e-8), second


NAMES: Final = {"adam": adam, "conv": conv, "jax": jax, "jnp": jnp, "jsp": jsp, "lax": lax}
"""What expressions may use."""


def _made(text: str) -> dict[str, Any]:
    """The arguments of a line."""
    random = np.random.default_rng(0)
    makers: dict[str, Callable[..., Any]] = {
        "f": lambda *sizes: random.standard_normal(sizes, np.float32),
        "p": lambda *sizes: np.abs(random.standard_normal(sizes, np.float32)) + np.float32(0.1),
        "i": lambda count, below: random.integers(0, below, count, np.int32),
    }
    pairs = [x.partition("=") for x in text.split()]
    return {name: jnp.asarray(eval(value, makers)) for name, _, value in pairs}


def lines(
    words: list[str], table: Path = TABLE
) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Yield the names, functions and arguments of a table's lines that are asked for."""
    for line in table.read_text().splitlines():
        name, expression, made = [x.strip() for x in line.split(" | ")]
        if words and not any(word in f"{name} {expression}" for word in words):
            continue
        arguments = _made(made)
        code = f"lambda {', '.join(arguments)}: {expression}"
        yield name, eval(code, dict(NAMES)), list(arguments.values())


def _seconds(calls: list[Callable[[], Any]]) -> list[float]:
    """CPU seconds of a call of each, the least of some turns."""
    counts = []
    for call in calls:
        call()
        start = process_time()
        call()
        counts.append(max(1, min(500, int(TURN_SECONDS / max(process_time() - start, 1e-6)))))
    best = [float("inf")] * len(calls)
    for _ in range(TURNS):
        for number, (call, count) in enumerate(zip(calls, counts, strict=True)):
            start = process_time()
            for _ in range(count):
                call()
            best[number] = min(best[number], (process_time() - start) / count)
    return best


def _awaited(function: Callable[..., Any], arguments: list[Any]) -> Any:
    return jax.tree.map(lambda x: x.block_until_ready(), function(*arguments))


def _apart(ours: Any, theirs: Any) -> float:
    """How far results are apart at most, relative to the largest number of each."""
    worst = 0.0
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        wide = np.complex128 if np.iscomplexobj(np.asarray(b)) else np.float64
        x, y = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        scale = np.max(np.abs(y), initial=0.0, where=np.isfinite(y)) or 1.0
        distance = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        worst = max(worst, float(np.max(distance, initial=0.0)) / scale)
    return worst


def main(words: list[str]) -> None:
    """Print a line for each operation, and the geometric means."""
    ratios: list[float] = []
    compiled: list[float] = []
    print(f"{'':24}{'ours':>10}{'XLA':>10}{'speed':>8}{'compile':>9}")
    for name, function, arguments in lines(words):
        start = process_time()
        theirs = jax.jit(function)
        expected = _awaited(theirs, arguments)
        middle = process_time()
        ours = lowtide.jit(function, threads=1)
        found = ours(*arguments)
        compiled.append((middle - start) / (process_time() - middle))
        one, other = _seconds([partial(ours, *arguments), partial(_awaited, theirs, arguments)])
        ratios.append(other / one)
        apart = _apart(found, expected)
        note = f"  apart by {apart:.1e}" if apart > APART else ""
        times = f"{one * 1e3:10.3f}{other * 1e3:10.3f}{ratios[-1]:8.2f}{compiled[-1]:9.2f}"
        print(f"{name:24}{times}{note}", flush=True)
    means = [exp(sum(map(log, x)) / len(x)) for x in (ratios, compiled) if x]
    print(f"{len(ratios)} operations, geometric means: " + ", ".join(f"{x:.2f}" for x in means))


if __name__ == "__main__":
    main(sys.argv[1:])
