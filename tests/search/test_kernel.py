"""Kernels compute the same as native code and as Python."""

import linecache
import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.native import NativeError
from lowtide.scheduling.greedy import made_bytes
from lowtide.search.kernels import Array, FloatArray, Kernel, kernel, machine, objects
from lowtide.search.kernels.machine import compiled

LIMIT = 7


@kernel
def divided(a: int, b: int) -> int:
    return (a // b) * 1000 + a % b


@kernel
def logic(a: int, b: int) -> int:
    """Mix what decides early with chained comparisons."""
    found = 0
    if (a > 0 and b // a > 1) or not -3 <= b < LIMIT:
        found = 1
    elif a == b:
        found = 2
    else:
        found += (a < b) + 3
    return found if a != 1 else -found


@kernel
def loops(n: int, out: Array) -> int:
    """Count down, skip, stop early; the variable of a loop may be set in it."""
    total = 0
    for i in range(n, 0, -2):
        if i == 5:
            continue
        if i < -4:
            break
        out[i] += i
        i = 0
        total = total * 3 + i
    k = 0
    while True:
        k += 1
        if k * k > n:
            break
    for i in range(3, n):
        for j in range(i):
            total ^= (i << 2) + (j >> 1) - (i & j | ~j)
    return total + k


@kernel
def fibonacci(n: int) -> int:
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@kernel
def mean(n: int, xs: FloatArray, weights: Array) -> float:
    total = 0.0
    weight = 0
    for i in range(n):
        total += xs[i] * weights[i]
        weight += weights[i]
    low = min(total, 2.5)
    return low / max(weight, 1, fibonacci(3)) + float(int(total)) + abs(-n)


NUMBERS = st.integers(-(2**31), 2**31)


@settings(deadline=None)
@given(NUMBERS, NUMBERS.filter(bool))
def test_division_rounds_down(a: int, b: int) -> None:
    assert divided(a, b) == divided.python(a, b)


def test_conditions() -> None:
    for a, b in product(range(-12, 13), repeat=2):
        assert logic(a, b) == logic.python(a, b)


def test_loops_and_arrays() -> None:
    for n in range(25):
        native, python = np.zeros(30, np.int64), np.zeros(30, np.int64)
        assert loops(n, native) == loops.python(n, python)
        assert (native == python).all()


def test_floats_and_calls() -> None:
    xs, weights = np.linspace(-1, 3, 9), np.arange(9)
    assert mean(9, xs, weights) == mean.python(9, xs, weights)
    assert fibonacci(20) == 6765


@kernel
def without_value(n: int) -> int:
    if n > 0:
        return 1


@kernel
def unset(n: int) -> int:
    return n + missing  # noqa: F821


@kernel
def sliced(xs: Array) -> int:
    return xs[0:2]


@kernel
def listed(n: int) -> int:
    xs = [n]
    return xs[0]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (without_value, "returns nothing"),
        (unset, "missing is not set"),
        (sliced, "no Slice"),
        (listed, "no List"),
    ],
)
def test_what_the_subset_lacks_is_named_with_its_place(wrong: Kernel, problem: str) -> None:
    given = np.zeros(2, np.int64) if wrong is sliced else 1
    with pytest.raises(NativeError, match=rf"test_kernel\.py:\d+: .*{re.escape(problem)}"):
        wrong(given)


def test_wrong_arguments() -> None:
    with pytest.raises(NativeError, match="out is no Array"):
        loops(3, np.zeros(9, np.int32))
    with pytest.raises(NativeError, match="not contiguous"):
        loops(3, np.zeros(18, np.int64)[::2])
    with pytest.raises(NativeError, match="1 arguments, expected 2"):
        divided(3)


class Kept(dict[str, bytes]):
    """Objects in memory."""

    def through(self, key: str, make: Callable[[], bytes]) -> bytes:
        if key not in self:
            self[key] = make()
        return self[key]


def test_another_process_takes_the_object_that_one_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_STORES", [])
    kept = Kept()
    objects.keep_objects(kept)
    for _ in range(2):
        assert kernel(divided.python)(-7, 2) == -3999
        assert len(kept) == 1


def test_a_kept_object_of_the_package_needs_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    monkeypatch.setattr(objects, "_STORES", [kept])
    compiled(Kernel(made_bytes.python, "made_bytes"))
    monkeypatch.setattr(machine, "text_of", None)
    compiled(Kernel(made_bytes.python, "made_bytes"))
    assert len(kept) == 1


def test_a_kernel_without_a_file_is_kept_by_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    monkeypatch.setattr(objects, "_STORES", [kept])
    for number in (3, 4):
        names = {"__name__": "notebook", "kernel": kernel}
        name = f"<cell {number}>"
        text = f"@kernel\ndef times(n: int) -> int:\n    return n * {number}\n"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), names)
        assert names["times"](5) == 5 * number
    assert len(kept) == 2
