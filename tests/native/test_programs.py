"""Programs written in JAX run natively and compute what XLA:CPU computes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from benchmarks.jax_programs import JaxProgram, jax_programs
from tests.native.comparing import compiled, flat, relative_error
from tests.support import SHARED, needs_shared

PROGRAMS = SHARED / "benchmarks" / "jax_corpus.py"


@cache
def programs(scale: str) -> dict[str, JaxProgram]:
    pytest.importorskip("jax")
    return {x.name: x for x in jax_programs(PROGRAMS, scale)}


@cache
def expected(scale: str, name: str) -> list[np.ndarray]:
    return programs(scale)[name].expected()


def names() -> list[str]:
    """The programs of the file, told from its text: it is only run where a test needs it."""
    if not Path(PROGRAMS).is_file():
        return ["none"]
    lines = PROGRAMS.read_text().split("\nif A.list:")[0].splitlines()
    pairs = pairwise(lines)
    return [y[4 : y.index("(")] for x, y in pairs if x.startswith("@prog(")]


@cache
def spread(scale: str, name: str) -> tuple[float, ...]:
    """How far XLA's own results move where arguments change by one unit in the last place.

    A sum that rounds to another side of 0 flips the gate of a ReLU, whatever adds it up.
    """
    program, random = programs(scale)[name], np.random.default_rng(0)
    worst = [0.0] * len(expected(scale, name))
    for _ in range(8):
        moved = [
            np.nextafter(x, x + random.integers(-1, 2, x.shape, np.int8).astype(x.dtype))
            if x.dtype in (np.float32, np.float64)
            else x
            for x in program.arguments()
        ]
        pairs = zip(program.expected(moved), expected(scale, name), strict=True)
        found = [relative_error(x, y) for x, y in pairs]
        worst = [max(x, y) for x, y in zip(worst, found, strict=True)]
    return tuple(worst)


def errors(scale: str, name: str, threads: int, target: str) -> list[str]:
    program = programs(scale)[name]
    got = flat(compiled(program.module(), threads, target)(*program.arguments()))
    wanted = expected(scale, name)
    assert len(got) == len(wanted)
    found = [relative_error(x, y) for x, y in zip(got, wanted, strict=True)]
    if all(x <= program.tolerance for x in found):
        return []
    return [
        f"{n}: {error:.2g} apart"
        for n, (error, moves) in enumerate(zip(found, spread(scale, name), strict=True))
        if not error <= max(program.tolerance, 2 * moves)
        and not is_one_gate(got[n], wanted[n], program.tolerance)
    ]


def is_one_gate(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    """Whether arrays differ in one element of a hundred at most, and hardly in the 2-norm.

    A gate that flips moves the gradient of what belongs to its channel, and of nothing else.
    """
    if got.dtype.kind != "f" or not np.isfinite(got).all():
        return False
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    apart = np.abs(a - b)
    few = np.mean(apart > tolerance * np.abs(b).max()) <= 0.01
    return bool(few and np.linalg.norm(a - b) <= 5 * tolerance * np.linalg.norm(b))


WAYS = ((2, "native"), (1, "avx2"), (2, "avx2"), (1, "native"))


@needs_shared
def test_the_names_are_those_of_the_file() -> None:
    assert names() == list(programs("small"))


@needs_shared
@pytest.mark.parametrize("name", names())
def test_small_programs(name: str) -> None:
    threads, target = WAYS[names().index(name) % 2]
    assert not errors("small", name, threads, target)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(("threads", "target"), WAYS)
@pytest.mark.parametrize("name", names())
def test_small_programs_in_all_ways(name: str, threads: int, target: str) -> None:
    assert not errors("small", name, threads, target)


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(("threads", "target"), WAYS)
@pytest.mark.parametrize("name", names())
def test_medium_programs(name: str, threads: int, target: str) -> None:
    assert not errors("medium", name, threads, target)
