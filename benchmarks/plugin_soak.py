"""Calls through JAX's plugin from many threads for a long time: results right, no memory lost.

    python benchmarks/plugin_soak.py [--minutes 10] [--callers 8]

Each caller draws one of several pieces of work: small programs that run at once, longer ones that
wait for their turn, chains of calls whose arrays die in any order, donation, views on the host that
outlive their arrays, arrays from the host, calls that fail and are caught, calls of which nobody
awaits the result. Twelve times the callers end, and the resident set is noted; after the first
quarter it may rise by 2% and 4 MB. Exit status 1 for a wrong result, for a rise, and where a caller
has not ended after a minute.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "lowtide"  # before JAX is imported

import argparse
import gc
import sys
from collections import deque
from collections.abc import Callable
from threading import Thread
from time import monotonic, sleep
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from native_memory import settled
from soak import Tally

ROUNDS: Final = 12
SHARE: Final = 0.02
SLACK: Final = 4_000_000
HANG_SECONDS: Final = 60.0

Work = Callable[[np.random.Generator, "deque[Any]"], bool]


@jax.jit
def affine(x: Any) -> Any:
    """A small program, which runs at once."""
    return x * 2 + 1


@jax.jit
def several(x: Any, y: Any) -> Any:
    """Several results, one of which is an argument."""
    return x + y, x, jnp.sum(y)


@jax.jit
def product(x: Any) -> Any:
    """A program that takes a while."""
    return jax.lax.fori_loop(0, 5, lambda _, y: jnp.tanh(y @ x), x)


@jax.jit
def large(x: Any) -> Any:
    """A result whose pages are moved."""
    return jnp.sin(x) + 1


def add_donated(x: Any) -> Any:
    """Its argument is donated."""
    return x + 1


step = jax.jit(add_donated, donate_argnums=0)


def small(random: np.random.Generator, held: deque[Any]) -> bool:
    """A chain of small calls, of which the last one is looked at."""
    start = float(random.integers(100))
    x = jnp.asarray(np.full(16, start, np.float32))
    for _ in range(int(random.integers(1, 30))):
        x = affine(x)
        start = start * 2 + 1
        if random.integers(2):
            held.append(x)
    return bool(np.asarray(x)[3] == np.float32(start)) or start > 1e7


def mixed(random: np.random.Generator, held: deque[Any]) -> bool:
    """Several results, dropped in any order while calls that need them wait."""
    size = int(random.choice([3, 100, 40_000]))
    x, y = jnp.full(size, 2.0), jnp.ones(size)
    found = [several(x, y) for _ in range(5)]
    random.shuffle(found)
    held.append(found.pop()[0])
    total, same, count = several(*found.pop()[:2])
    return float(total[0]) == 5 and float(same[-1]) == 3 and float(count) == 2 * size


def slow(random: np.random.Generator, held: deque[Any]) -> bool:
    """Calls that wait for one another, some of them for nothing."""
    x = jnp.eye(100)
    y = affine(product(x))
    if random.integers(2):
        held.append(product(y))
    expected = np.tanh(np.ones(1))
    for _ in range(4):
        expected = np.tanh(expected)
    return bool(np.allclose(float(y[0, 0]), expected * 2 + 1, atol=1e-5))


def donated(random: np.random.Generator, held: deque[Any]) -> bool:
    """A state that is overwritten in each step, with views of some steps."""
    x, views = jnp.zeros(int(random.choice([8, 300_000]))), []
    for number in range(10):
        if random.integers(2):
            views.append((number, np.asarray(x)))
        x = step(x)
    held.append(views[-1:])
    return all(float(view[-1]) == number for number, view in views) and float(x[0]) == 10


def moved(random: np.random.Generator, held: deque[Any]) -> bool:
    """Large results, one of them held by a view only."""
    x = large(jnp.zeros(400_000))
    y = large(x)
    view = np.asarray(y)
    del x, y
    return bool(np.isclose(view[int(random.integers(400_000))], np.sin(1.0) + 1))


def failing(random: np.random.Generator, held: deque[Any]) -> bool:
    """Errors that are caught: of deleted arrays and of donated ones."""
    x = jnp.ones(int(random.choice([1, 30])))
    x.delete()
    y = jnp.ones(5)
    held.append(step(y))
    for gone in (x, y):
        try:
            affine(gone)
        except (RuntimeError, ValueError):
            continue
        return False
    return True


def host(random: np.random.Generator, held: deque[Any]) -> bool:
    """Arrays from the host and back."""
    given = random.normal(size=(7, int(random.choice([1, 33, 2000])))).astype(np.float32)
    found = jax.device_get(affine(jnp.asarray(given[:, ::-1])))
    return bool(np.allclose(found, given[:, ::-1] * 2 + 1))


WORKS: Final[tuple[Work, ...]] = (small, mixed, slow, donated, moved, failing, host)


def caller(seed: int, tally: Tally) -> None:
    """Work until told to stop."""
    random = np.random.default_rng(seed)
    held: deque[Any] = deque(maxlen=1 + seed % 4)
    calls = wrong = 0
    try:
        while not tally.stop.is_set():
            work = WORKS[int(random.integers(len(WORKS)))]
            calls += 1
            if not work(random, held):
                wrong += 1
                tally.errors.append(f"{work.__name__} was wrong")
    except Exception as error:  # a thread must not end in silence: the tally makes it a failure
        tally.errors.append(f"{type(error).__name__}: {error}")
    tally.add(calls, wrong)


def quiet() -> int:
    """Return the resident set when nothing is in use."""
    jnp.zeros(1).block_until_ready()
    gc.collect()
    sleep(0.2)
    jnp.zeros(1).block_until_ready()
    return settled()


def main() -> None:
    """Run the callers; print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--callers", type=int, default=8)
    given = parser.parse_args()
    tally, start, samples = Tally(), monotonic(), []
    for number in range(ROUNDS):
        tally.stop.clear()
        seeds = range(number * given.callers, (number + 1) * given.callers)
        callers = [Thread(target=caller, args=(x, tally), daemon=True) for x in seeds]
        for x in callers:
            x.start()
        sleep(given.minutes * 60 / ROUNDS)
        tally.stop.set()
        for x in callers:
            x.join(HANG_SECONDS)
        if any(x.is_alive() for x in callers):
            tally.errors.append("a caller hangs")
            break
        samples.append(quiet())
        print(f"round {number}: {samples[-1] / 1e6:.1f} MB", flush=True)
    base, last = max(samples[: ROUNDS // 4]), max(samples[-ROUNDS // 4 :])
    leaks = last > base * (1 + SHARE) + SLACK
    print(f"{tally.calls} pieces of work in {monotonic() - start:.0f} s, {tally.wrong} wrong")
    print(f"resident set from {base / 1e6:.1f} to {last / 1e6:.1f} MB{'  RISES' if leaks else ''}")
    print(jax.devices()[0].memory_stats())
    for text in sorted(set(tally.errors)):
        print(text)
    sys.exit(bool(tally.wrong or tally.errors or leaks or not tally.calls))


if __name__ == "__main__":
    main()
