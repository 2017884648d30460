"""XLA:CPU's plans taken apart: the programs of three issues, compiled and explained.

    python benchmarks/autopsy.py [bincount | conditional | pops] ...

For each program: the report of `lowtide.explain(compiled, lowered=lowered)`, what would lower the
plan compiled to check, and the seconds that the report took, compiling included. Needs JAX.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import lowtide


def pairwise_bincounts(columns: Any, sizes: tuple[int, ...]) -> Any:
    """openxla/xla#35719: the counts of the pairs of values of each two columns."""
    counts = []
    for first, column in zip(sizes, columns, strict=True):
        for second, other in zip(sizes, columns, strict=True):
            index = jnp.ravel_multi_index((column, other), (first, second), mode="clip")
            counts.append(jnp.bincount(index, length=first * second).reshape(first, second))
    return tuple(counts)


def conditional_in_scan(params: Any, steps: Any) -> Any:
    """jax#38145: every fourth step changes the parameters, the others pass them through."""

    def step(carry: Any, x: Any) -> Any:
        params, count = carry
        update = partial(jax.tree.map, lambda w: w - 0.01 * w * x)
        params = lax.cond(count % 4 == 0, update, lambda p: p, params)
        return (params, count + 1), None

    return lax.scan(step, (params, jnp.int32(0)), steps)[0]


def pops(carry: Any, positions: Any) -> Any:
    """jax#17845: what stands behind a position moves forward by one place."""

    def pop(carry: Any, position: Any) -> Any:
        rest = lax.dynamic_slice(carry, (position + 1,), (4096,))
        return lax.dynamic_update_slice(carry, rest, (position,)), carry[position]

    return lax.scan(pop, carry, positions)


def _lowered(name: str) -> Any:
    array = jax.ShapeDtypeStruct
    if name == "bincount":
        sizes = tuple(range(10, 50, 5))
        columns = tuple([array((1_000_000,), jnp.int32)] * len(sizes))
        return jax.jit(pairwise_bincounts, static_argnums=1).lower(columns, sizes)
    if name == "conditional":
        params = {"w": array((1024, 1024), jnp.float32), "b": array((1024,), jnp.float32)}
        return jax.jit(conditional_in_scan).lower(params, array((64,), jnp.float32))
    return jax.jit(pops).lower(array((1_000_000,), jnp.float32), array((64,), jnp.int32))


PROGRAMS: dict[str, Callable[..., Any]] = {
    "bincount": pairwise_bincounts,
    "conditional": conditional_in_scan,
    "pops": pops,
}


def main() -> None:
    """Print the report of each program that is asked for, by default of all."""
    for name in sys.argv[1:] or PROGRAMS:
        print(f"=== {PROGRAMS[name].__doc__}\n")
        lowered = _lowered(name)
        compiled = lowered.compile()
        start = perf_counter()
        report = lowtide.explain(compiled, lowered=lowered)
        seconds = perf_counter() - start
        print(f"{report}\n\n{seconds:.1f} s\n")


if __name__ == "__main__":
    main()
