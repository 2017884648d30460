"""Linear algebra beside XLA:CPU: time and memory of one call, one thread.

    python benchmarks/linalg.py [--only NAME,...] [--sizes 4,32,...] [--dtype float32]
        [--document docs/performance.md]

The process is kept on one processor. Calls take turns in slices; the time is the processor's, the
least of all slices, since others may use the machine meanwhile. Memory is what is planned beyond
arguments. `--document` writes the section "linalg".
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import vs_xla
from sections import replace_section

SIZES = (4, 32, 60, 128, 240, 500, 1000)
HEADER = """\
| | size | batch | ours us | XLA us | speed | memory | XLA |
|---|--:|--:|--:|--:|--:|--:|--:|"""


def functions() -> dict[str, Callable[..., Any]]:
    """Return what is measured by name, each a function of a positive definite matrix and rows."""
    import jax
    from jax import numpy as jnp

    def triangular(a: Any, b: Any) -> Any:
        return jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)

    return {
        "solve, one side": lambda a, b: jnp.linalg.solve(a, b[..., :1]),
        "LU": lambda a, b: jax.lax.linalg.lu(a),
        "QR": lambda a, b: jnp.linalg.qr(a),
        "Cholesky": lambda a, b: jnp.linalg.cholesky(a),
        "eigh": lambda a, b: jnp.linalg.eigh(a),
        "svd": lambda a, b: jnp.linalg.svd(a),
        "inverse": lambda a, b: jnp.linalg.inv(a),
        "triangular solve": triangular,
    }


def arguments(size: int, batch: int, dtype: str) -> list[Any]:
    """Return a positive definite matrix and another one, or a batch of each."""
    random = np.random.default_rng(size)
    sizes = (batch, size, size) if batch > 1 else (size, size)
    a, b = (random.standard_normal(sizes).astype(dtype) for _ in range(2))
    return [(a @ np.swapaxes(a, -1, -2) / size + np.eye(size)).astype(dtype), b]


def measured(function: Callable[..., Any], given: list[Any]) -> tuple[float, float, int, int]:
    """Return seconds of ours and XLA's, and bytes of both."""
    import jax

    from lowtide.evaluator import value_leaves
    from lowtide.inspection.xla_program import needed_bytes

    jitted = jax.jit(function, keep_unused=True)
    lowered = jitted.lower(*given)
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    _, executable, _ = vs_xla.compiled(text, 1)
    reference = lowered.compile()
    theirs = [jax.numpy.array(x) for x in given]
    times = vs_xla.alternating(
        [
            lambda: list(value_leaves(executable(*given))),
            lambda: jax.tree.leaves(jax.block_until_ready(reference(*theirs))),
        ],
        0.3,
        0.005,
    )
    memory = executable.arena_bytes, needed_bytes(reference.memory_analysis())
    return times[0], times[1], *memory


def rows(given: argparse.Namespace) -> Iterator[str]:
    """Yield the rows of the table."""
    sizes = [int(x) for x in given.sizes.split(",")] if given.sizes else SIZES
    for name, function in functions().items():
        if not any(x in name for x in given.only.split(",")):
            continue
        for size in sizes:
            for batch in (1, 64) if size <= 32 else (1,):
                arrays = arguments(size, batch, given.dtype)
                ours, theirs, our_bytes, their_bytes = measured(function, arrays)
                yield (
                    f"| {name} | {size} | {batch} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | "
                    f"{theirs / ours:.2f} | {our_bytes:,} | {their_bytes:,} |"
                )


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="parts of names, between commas")
    parser.add_argument("--sizes", default="", help="rows, between commas")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--document", type=Path, help="write the table into this file")
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    import jax

    jax.config.update("jax_enable_x64", given.dtype == "float64")
    vs_xla.perf_counter = time.process_time
    found = []
    for row in rows(given):
        print(row, flush=True)
        found.append(row)
    if given.document:
        replace_section(given.document, "linalg", "\n".join([HEADER, *found]))


if __name__ == "__main__":
    main()
