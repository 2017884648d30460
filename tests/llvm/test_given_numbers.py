"""Numbers that functions equal but for them are given, by where these stand."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.given_numbers import MOST_GIVEN, MOST_IN_LOOPS
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.objects import with_unique_names
from lowtide.llvm.sharing import with_shared_functions
from lowtide.llvm.target import host_target

LONG = 40
"""Lines from which on a function is worth a module of its own."""

COUNT = 64


def lengthened(f: Function, value: str) -> str:
    """Return a value that takes many lines."""
    for _ in range(LONG):
        value = f.op(f"xor i64 {value}, %salt")
    return value


def written(write: Callable[[Function, int], None], number: int) -> tuple[str, str]:
    """Return a module of a kernel with a number, and its name."""
    f = Function("kernel", parameters(to="ptr", salt="i64"))
    write(f, number)
    text, ending = with_unique_names(module_text([f]))
    return text, f"kernel{ending}"


def values(texts: Sequence[str], names: Sequence[str]) -> list[list[int]]:
    """Return what each of the kernels makes of the numbers 0, 1, 2 and so on."""
    compiler = KernelCompiler(host_target())
    library = Library([compiler.object_code(x) for x in texts], names, host_target())
    found = []
    for name in names:
        to = np.arange(COUNT)
        arguments = ctypes.c_void_p(to.ctypes.data), ctypes.c_int64(5)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library[name])(*arguments)
        found.append(to.tolist())
    return found


def add_at(f: Function, place: str, value: str) -> None:
    f.store("i64", f.op(f"add i64 {value}, {f.load('i64', place, 8)}"), place, 8)


def rows(f: Function, number: int) -> None:
    """Rows that lie a number apart, each of as many steps, whose ends are carried."""
    value = lengthened(f, "%salt")
    with f.loop(0, 4) as row:
        start = f.op(f"mul nsw i64 {row.index}, {8 * number}")
        begin = f.gep("%to", start)
        with f.loop(0, number, carry=[("i64", "0")]) as step:
            add_at(f, f.gep(begin, step.values[0]), value)
            step.next = [f.op(f"add nsw i64 {step.values[0]}, 8 ; open")]


def steps(f: Function, number: int) -> None:
    """Every so many values, which a loop steps over, with a multiple of that and a part of it."""
    value = lengthened(f, "%salt")
    with f.loop(0, 5, carry=[("i64", "0")]) as step:
        add_at(f, f.gep("%to", step.values[0]), f.op(f"mul nsw i64 {value}, {-number}"))
        step.next = [f.op(f"add nsw i64 {step.values[0]}, {8 * number} ; open")]
    add_at(f, f.gep("%to", 8 * number), value)


def behind(f: Function, number: int) -> None:
    """A distance behind addresses whose base an outer loop has made."""
    value = lengthened(f, "%salt")
    with f.loop(0, 3) as row:
        begin = f.op(f"getelementptr i64, ptr %to, i64 {row.index}")
        with f.loop(0, 3) as step:
            place = f.op(f"getelementptr i64, ptr {begin}, i64 {step.index}")
            add_at(f, f.op(f"getelementptr i8, ptr {place}, i64 {8 * number}"), value)


def quotients(f: Function, number: int) -> None:
    """A quotient and a remainder that are found once."""
    value = lengthened(f, "%salt")
    place = f.op(f"urem i64 %salt, {number}")
    add_at(f, f.gep("%to", f.op(f"mul nsw i64 {place}, 8")), f.op(f"udiv i64 {value}, {number}"))
    add_at(f, f.gep("%to", 8), f.op(f"sub nsw i64 {number}, {value}"))


@pytest.mark.parametrize("write", [rows, steps, behind, quotients])
@pytest.mark.parametrize("numbers", [(2, 3), (3, 2), (2, 3, 7), (2, 4, 8)])
def test_kernels_equal_but_for_numbers_become_one(
    write: Callable[[Function, int], None], numbers: tuple[int, ...]
) -> None:
    texts, names = zip(*[written(write, x) for x in numbers], strict=True)
    left, shared = with_shared_functions(texts)
    assert len(shared) == 1
    assert len(left) == 1
    assert values([*left, *shared], names) == values(texts, names)


def unrolled(f: Function, number: int) -> None:
    """Steps of a loop that are written out: distances behind one address, twice each."""
    value = lengthened(f, "%salt")
    with f.loop(0, 2) as step:
        place = f.op(f"getelementptr i64, ptr %to, i64 {step.index}")
        for row in range(6):
            for part in (0, 16):
                further = 8 * (row * number + 1) + part
                add_at(f, f.op(f"getelementptr i8, ptr {place}, i64 {further}"), value)


@pytest.mark.parametrize("numbers", [(2, 3), (2, 3, 7), (7, 4, 2, 5)])
def test_distances_as_far_apart_everywhere_take_one_register(numbers: tuple[int, ...]) -> None:
    texts, names = zip(*[written(unrolled, x) for x in numbers], strict=True)
    (calls,), (shared,) = with_shared_functions(texts)
    assert shared.count(".base = getelementptr i8, ptr %to, ") == 5
    assert values([calls, shared], names) == values(texts, names)


def several_loops(f: Function, number: int) -> None:
    """As many loops, each with numbers of its own, as many as a loop may have."""
    for first in range(0, 20, MOST_IN_LOOPS // 2):
        with f.loop(0, 2) as step:
            value = lengthened(f, str(step.index))
            for x in range(first, first + MOST_IN_LOOPS // 2):
                value = f.op(f"mul nsw i64 {value}, {1 + 2 * x + x * number + number**2}")
            add_at(f, f.gep("%to", step.index, "i64"), value)


def test_each_loop_has_registers_of_its_own() -> None:
    texts, names = zip(*[written(several_loops, x) for x in (2, 5)], strict=True)
    (calls,), (shared,) = with_shared_functions(texts)
    assert values([calls, shared], names) == values(texts, names)


def test_multiples_of_a_number_are_made_of_it() -> None:
    texts = [written(steps, x)[0] for x in (2, 3, 7)]
    (calls,), (shared,) = with_shared_functions(texts)
    assert shared.partition(") nounwind")[0].count("%given") == 1
    assert "  %given.1 = mul nsw i64 %given.0, -8\n" in shared
    assert all(f", i64 {-x})" in calls for x in (2, 3, 7))


def calling(start: int, inner: int, places: int = 1) -> tuple[str, str]:
    """Return a module of a kernel that divides in a loop, where it calls a long function."""
    called = Function("inner", parameters(to="ptr", salt="i64"), linkage="internal")
    rows(called, inner)
    f = Function("kernel", parameters(to="ptr", salt="i64"))
    with f.loop(0, 3) as step:
        part = f.op(f"udiv i64 {step.index}, {start}")
        for place in range(places):
            add_at(f, f.gep("%to", start + place, "i64"), lengthened(f, part))
        f.call(called, [f.gep("%to", start, "i64"), "%salt"])
    text, ending = with_unique_names(module_text([called, f]))
    return text, f"kernel{ending}"


def test_kernels_that_call_what_is_shared_become_one() -> None:
    texts, names = zip(*[calling(*x) for x in ((2, 3), (3, 4), (7, 2))], strict=True)
    (calls,), shared = with_shared_functions(texts)
    assert len(shared) == 2
    assert calls.count("tail call void @kernel.") == len(texts)
    assert values([calls, *shared], names) == values(texts, names)


def divided(f: Function, number: int) -> None:
    with f.loop(0, 3) as step:
        value = lengthened(f, f.op(f"udiv i64 {step.index}, {number}"))
        add_at(f, f.gep("%to", step.index, "i64"), value)


def test_a_divisor_in_an_innermost_loop_keeps_kernels_apart() -> None:
    texts = [written(divided, x)[0] for x in (2, 3)]
    assert with_shared_functions(texts) == (texts, [])


def scaled(count: int, *, within: bool) -> Callable[[Function, int], None]:
    """A kernel with so many numbers, in its innermost loop or around it."""

    def write(f: Function, number: int) -> None:
        value = lengthened(f, "%salt")
        with f.loop(0, 3) as row:
            index = row.index
            for x in () if within else range(count):
                index = f.op(f"mul nsw i64 {index}, {1 + 2 * x + x * number + number * number}")
            with f.loop(0, 2) as step:
                product = f.op(f"add i64 {value}, {index}")
                for x in range(count) if within else ():
                    product = f.op(f"mul nsw i64 {product}, {1 + 2 * x + x * number + number**2}")
                add_at(f, f.gep("%to", step.index, "i64"), product)

    return write


@pytest.mark.parametrize(
    ("count", "within", "is_shared"),
    [
        (MOST_IN_LOOPS, True, True),
        (MOST_IN_LOOPS + 1, True, False),
        (MOST_IN_LOOPS + 1, False, True),
        (MOST_GIVEN, False, True),
        (MOST_GIVEN + 1, False, False),
    ],
)
def test_innermost_loops_have_registers_for_a_few_numbers(
    count: int, within: bool, is_shared: bool
) -> None:
    texts, names = zip(*[written(scaled(count, within=within), x) for x in (2, 5)], strict=True)
    left, shared = with_shared_functions(texts)
    assert len(shared) == is_shared
    assert values([*left, *shared], names) == values(texts, names)
