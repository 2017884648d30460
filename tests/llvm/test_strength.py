"""Addresses of innermost loops: what is written ahead, what is carried, and that they are right."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable

import numpy as np
import pytest

from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.loops import OPEN
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.strength import MOST_FIXED, MOST_TERMS
from lowtide.llvm.target import host_target

SIZE = 4096
"""Numbers that a function reads and writes."""

MIDDLE = SIZE // 2

START = np.arange(SIZE, dtype=np.int64) % 61
"""Those numbers as they are given."""


def added(f: Function, place: str, value: str | int) -> None:
    """Write the addition of an integer to one in memory."""
    f.store("i64", f.add(f.load("i64", place, 8), value), place, 8)


def scaled(f: Function) -> None:
    with f.loop(0, 9) as loop:
        added(f, f.gep("%to", loop.index, "i64"), 1)


def apart(f: Function) -> None:
    """Several steps of an iteration, which lie a row apart."""
    with f.loop(0, 12, 4) as loop:
        for step in range(4):
            row = f.gep("%to", f.mul(f.add(loop.index, step), 24), "i64")
            added(f, f.gep(row, 3, "i64"), step)


def of_outer_loops(f: Function) -> None:
    with f.loop("%begin", "%end") as outer, f.loop(0, 5) as inner:
        place = f.add(f.mul(outer.index, 40), f.mul(inner.index, 3))
        added(f, f.gep("%to", place, "i64"), f.add(outer.index, inner.index))


def backward(f: Function) -> None:
    with f.loop("%begin", "%end", 2) as loop:
        place = f.sub(f.sub(100, f.mul(loop.index, 7)), "%begin")
        added(f, f.gep("%middle", place, "i64"), loop.index)


def below_the_buffer(f: Function) -> None:
    """The fixed part lies ahead of all that the function may touch."""
    with f.loop(MIDDLE, MIDDLE + 4) as loop:
        added(f, f.gep("%to", f.add(f.mul(f.add(loop.index, -MIDDLE), 5), "%begin"), "i64"), 1)


def doubles_of_what_is_carried(f: Function) -> None:
    with f.loop(0, 6) as loop:
        for factor in (3, 6, 12, 24, 5):
            added(f, f.gep("%to", f.mul(loop.index, factor), "i64"), factor)


def under_a_condition(f: Function) -> None:
    with f.loop(0, 20) as loop:
        place = f.gep("%to", f.mul(loop.index, 3), "i64")
        with f.when(f.compare("slt", loop.index, "%end")):
            added(f, f.gep(place, 16, "i8"), 1)
        added(f, place, 2)


def by_what_was_read(f: Function) -> None:
    with f.loop(0, 8) as loop:
        number = f.load("i64", f.gep("%middle", loop.index, "i64"), 8)
        added(f, f.gep("%to", f.add(f.mul(number, 3), loop.index), "i64"), 1)


def of_many_rows(f: Function) -> None:
    """More fixed parts than a loop has registers for, and sums of more names than are known."""
    names = [f.load("i64", f.gep("%middle", i, "i64"), 8) for i in range(MOST_FIXED + 2)]
    with f.loop(0, 3) as loop:
        total: str | int = loop.index
        for name in names:
            added(f, f.gep("%to", f.add(f.mul(name, 9), loop.index), "i64"), 1)
            total = f.add(total, name)
        added(f, f.gep("%to", total, "i64"), 5)


def steps_unknown(f: Function) -> None:
    with f.loop("%begin", 30, "%end") as loop:
        added(f, f.gep("%to", f.mul(loop.index, 6), "i64"), 1)


WRITTEN = [
    *(scaled, apart, of_outer_loops, backward, below_the_buffer, doubles_of_what_is_carried),
    *(under_a_condition, by_what_was_read, of_many_rows, steps_unknown),
]


def text_of(write: Callable[[Function], None], linkage: str = "") -> str:
    f = Function("f", parameters(to="ptr", middle="ptr", begin="i64", end="i64"), linkage=linkage)
    write(f)
    return module_text([f])


def numbers(text: str) -> np.ndarray:
    """Return what a function makes of numbers, from 2 to 11."""
    library = Library([KernelCompiler(host_target()).object_code(text)], ["f"], host_target())
    found = START.copy()
    at = found.ctypes.data
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    call(library["f"])(at, at + MIDDLE * 8, 2, 11)
    return found


@pytest.mark.parametrize("write", WRITTEN, ids=lambda x: x.__name__)
def test_addresses_are_those_of_the_loop_as_it_was_given(write):
    assert MOST_TERMS < MOST_FIXED
    as_given = text_of(write, "ptx_kernel").replace("ptx_kernel", "")
    written = text_of(write)
    found = numbers(written)
    np.testing.assert_array_equal(found, numbers(as_given))
    assert np.count_nonzero(found != START)


def body_of(write: Callable[[Function], None]) -> str:
    """Return the text of the innermost loop."""
    text = text_of(write)
    return text[text.rindex("\nhead.") : text.rindex("\ndone.")]


@pytest.mark.parametrize(
    ("write", "carried"),
    [(scaled, 0), (apart, 1), (of_outer_loops, 1), (doubles_of_what_is_carried, 2)],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_multiples_are_carried_where_the_processor_has_no_scale(write, carried):
    body = body_of(write)
    assert " mul " not in body
    assert len(re.findall("%m[.][0-9]+ = phi", body)) == carried


def test_no_register_is_taken_for_more_fixed_parts_than_there_are():
    body = body_of(of_many_rows)
    assert body.count("getelementptr i8, ptr %to") == 0
    assert body.count(" mul ") == MOST_FIXED + 2


def test_kernels_of_gpus_stay_as_they_are():
    assert " mul " in text_of(apart, "ptx_kernel")


def test_loops_with_narrower_integers_are_left_to_llvm():
    def narrower(f: Function) -> None:
        with f.loop(0, 9) as loop:
            low = f.op(f"trunc i64 {f.mul(loop.index, 3)} to i32")
            added(f, f.gep("%to", f.op(f"zext i32 {low} to i64"), "i64"), 1)

    assert OPEN not in text_of(narrower)
    np.testing.assert_array_equal(
        np.flatnonzero(numbers(text_of(narrower)) - START), 3 * np.arange(9)
    )
