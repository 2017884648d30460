"""Functions that modules have in common, compiled once."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

import numpy as np
import pytest

from lowtide.codegen.elementwise.memory import STREAMED
from lowtide.llvm.callee import Callee, parameters
from lowtide.llvm.direct_addresses import buffer_loads, buffer_pointer
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import CALLS, KernelCompiler
from lowtide.llvm.objects import COMMON, with_unique_names
from lowtide.llvm.sharing import with_shared_functions, without_common
from lowtide.llvm.target import host_target

SUMS = 24
"""How many sums a function makes, so that it is long enough to be worth a module of its own."""


def inner(factor: int, limit: int, apart: int = 8) -> Function:
    """to[i] = (factor + SUMS) * i for i < limit, each so many bytes behind the last one."""
    f = Function("inner", parameters(to="ptr"), linkage="internal")
    with f.loop(0, limit) as loop:
        value = f.op(f"mul nsw i64 {loop.index}, {factor}")
        for _ in range(SUMS):
            value = f.op(f"add nsw i64 {value}, {loop.index}")
        place = f.op(f"mul nsw i64 {loop.index}, 8")
        first = f.gep("%to", place)
        f.store("i64", value, first, 8)
        f.store("i64", value, f.gep(first, apart), 8)
        for _ in range(SUMS):
            value = f.op(f"xor i64 {value}, {loop.index}")
    return f


def module(called: Function, name: str = "outer", times: int = 1) -> tuple[str, str]:
    """Return a module whose function calls another one, and its name."""
    f = Function(name, parameters(to="ptr"))
    for _ in range(times):
        f.call(called, ["%to"])
    text, ending = with_unique_names(module_text([called, f]))
    return text, name + ending


def results(texts: Sequence[str], names: Sequence[str], count: int) -> list[np.ndarray]:
    compiler = KernelCompiler(host_target())
    library = Library([compiler.object_code(x) for x in texts], names, host_target())
    found = []
    for name in names:
        to = np.zeros(count + 1, np.int64)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library[name])(to.ctypes.data)
        found.append(to)
    return found


@pytest.mark.parametrize("others", [[(3, 5)], [(2, 7)], [(3, 7)], [(2, 5), (9, 1000)], [(2, 4)]])
def test_functions_equal_but_for_numbers_become_one(others: list[tuple[int, int]]) -> None:
    made = [module(inner(*x), f"outer{i}") for i, x in enumerate([(2, 5), *others])]
    texts, names = zip(*made, strict=True)
    left, shared = with_shared_functions(texts)
    assert len(shared) == 1
    assert not any("define internal" in x for x in left)
    expected = results(texts, names, 1000)
    for x, y in zip(results([*left, *shared], names, 1000), expected, strict=True):
        assert (x == y).all()


def test_a_function_called_twice_is_given_its_numbers_at_both_places() -> None:
    (one, first), (two, second) = module(inner(2, 5), times=2), module(inner(3, 5), "other")
    left, shared = with_shared_functions([one, two])
    assert left[0].count(", i64 2)") == 2
    assert left[1].count(", i64 3)") == 1
    assert results([*left, *shared], [first, second], 5)[1][4] == 4 * (3 + SUMS)


def test_the_same_texts_give_the_same_module_whoever_else_has_it() -> None:
    texts = [module(inner(2, 5), x)[0] for x in ("a", "b", "c")]
    _, of_two = with_shared_functions(texts[:2])
    _, of_three = with_shared_functions(texts)
    assert of_two == of_three


def test_what_differs_otherwise_stays() -> None:
    texts = [module(inner(2, 5))[0], module(inner(2, 5, apart=16))[0]]
    assert with_shared_functions(texts) == (texts, [])


def test_short_functions_and_those_of_one_module_stay() -> None:
    short = Function("short", parameters(to="ptr"), linkage="internal")
    texts = [module(short, "a")[0], module(short, "b")[0], module(inner(2, 5))[0]]
    assert with_shared_functions(texts) == (texts, [])


def test_functions_that_call_others_of_their_module_stay() -> None:
    def calling() -> str:
        least = Function("least", parameters(to="ptr"), linkage="internal")
        least.store("i64", 1, "%to", 8)
        middle = inner(2, 5)
        middle.call(least, ["%to"])
        f = Function("outer", parameters(to="ptr"))
        f.call(middle, ["%to"])
        return with_unique_names(module_text([least, middle, f]))[0]

    texts = [calling(), calling() + "\n"]
    assert with_shared_functions(texts) == (texts, [])


def test_functions_that_call_what_modules_have_in_common_stay() -> None:
    def calling(apart: int) -> str:
        least = Function(f"{COMMON}least", parameters(to="ptr"), linkage="internal")
        least.store("i64", 1, "%to", 8)
        middle = inner(2, 5)
        middle.call(least, ["%to"])
        f = Function("outer", parameters(to="ptr"))
        f.call(middle, [f.gep("%to", apart)])
        return with_unique_names(module_text([least, middle, f]))[0]

    texts = [calling(8), calling(16)]
    assert all(x.count(f"@{COMMON}least(") == 2 for x in texts)
    assert with_shared_functions(texts) == (texts, [])


def test_more_numbers_than_registers_keep_functions_apart() -> None:
    def many(start: int) -> str:
        f = Function("inner", parameters(to="ptr"), linkage="internal")
        value = f.load("i64", "%to", 8)
        for number in range(2 * SUMS):
            value = f.op(f"mul nsw i64 {value}, {1 + 2 * number + start * number + start**2}")
        f.store("i64", value, "%to", 8)
        return module(f)[0]

    texts = [many(2), many(5)]
    assert with_shared_functions(texts) == (texts, [])
    left, shared = with_shared_functions([*texts, texts[0] + "\n"])
    assert left[1] == texts[1]
    assert len(shared) == 1


def test_only_addresses_that_are_used_are_loaded() -> None:
    pointers = {x: buffer_pointer(x) for x in range(13)}
    lines = buffer_loads(pointers, ["  store i64 0, ptr %buffer.12, align 8"])
    assert lines == [
        "  %place.12 = getelementptr inbounds ptr, ptr %buffers, i64 12",
        "  %buffer.12 = load ptr, ptr %place.12, align 8",
    ]
    assert buffer_loads(pointers, ["  store i64 0, ptr %buffer.0, align 8"]) == [
        "  %buffer.0 = load ptr, ptr %buffers, align 8"
    ]


def test_functions_of_common_names_are_modules_of_their_own() -> None:
    three = Function(f"{COMMON}three", linkage="internal")
    three.returns = "i64"
    constant = f"@{COMMON}number = private unnamed_addr constant i64 3, align 8"
    three.define(constant)
    three.ret("i64", three.load("i64", f"@{COMMON}number", 8))
    more = Function(f"{COMMON}more", parameters(x="i64", y="<2 x i64>"), linkage="internal")
    more.returns = "i64"
    three_times = more.call(Callee(f"@{COMMON}three", "i64", ()), [])
    lane = more.op("extractelement <2 x i64> %y, i64 1")
    more.ret("i64", more.add(more.op(f"mul nsw i64 {three_times}, %x"), lane))
    f = Function("outer", parameters(to="ptr"))
    called = Callee(f"@{COMMON}more", "i64", ("i64", "<2 x i64>"))
    f.store("i64", f.call(called, ["5", "<i64 1, i64 2>"]), "%to", 8)
    text, ending = with_unique_names(module_text([three, more, f]))
    left, modules = without_common(text)
    assert "define internal" not in left
    assert constant not in left
    assert [x.count("define ") for x in modules] == [1, 1]
    assert without_common(module_text([three, more]))[1] == modules
    (found,) = results([left, *modules], [f"outer{ending}"], 1)
    assert found[0] == 17


def kernel(first: int, apart: int, *, is_fixed: bool = True) -> tuple[str, str]:
    """Return a module with to[first + i] += to[i + apart / 8] for i < 5 as its only function.

    What it reads is as far behind an address that steps, or behind one that a loop has loaded.
    """
    f = Function("kernel", parameters(table="ptr"))
    base = f.load("ptr", "%table", 8)
    to = f.gep(base, first, "i64")
    with f.loop(0, 5) as loop:
        start = base if is_fixed else f.load("ptr", "%table", 8)
        place = f.op(f"getelementptr i64, ptr {start}, i64 {loop.index}")
        value = f.load("i64", f.op(f"getelementptr i8, ptr {place}, i64 {apart}"), 8)
        for _ in range(SUMS):
            value = f.op(f"xor i64 {value}, {loop.index}")
        there = f.gep(to, loop.index, "i64")
        f.store("i64", f.op(f"add i64 {value}, {f.load('i64', there, 8)}"), there, 8)
    text, ending = with_unique_names(module_text([f]))
    return text, f"kernel{ending}"


def sums(texts: Sequence[str], names: Sequence[str]) -> list[list[int]]:
    compiler = KernelCompiler(host_target())
    library = Library([compiler.object_code(x) for x in texts], names, host_target())
    found = []
    for name in names:
        to = np.arange(1, 33)
        table = np.array([to.ctypes.data])
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library[name])(table.ctypes.data)
        found.append(to.tolist())
    return found


@pytest.mark.parametrize("others", [[(3, 56)], [(2, 64)], [(3, 64), (7, 96)]])
def test_kernels_equal_but_for_distances_become_calls_of_one(others: list[tuple[int, int]]) -> None:
    texts, names = zip(*[kernel(*x) for x in [(2, 56), *others]], strict=True)
    (calls,), (shared,) = with_shared_functions(texts)
    assert all(calls.count(f"@{x}(") == 1 for x in names)
    assert calls.count("tail call void ") == len(texts)
    assert (calls + shared).count(" xor ") == SUMS
    assert sums([calls, shared], names) == sums(texts, names)


def test_stores_past_caches_have_their_mark_in_the_shared_function() -> None:
    texts, names = zip(*[kernel(2, x) for x in (56, 64)], strict=True)
    store = re.compile(r"(  store i64 .*)$", re.MULTILINE)
    texts = [store.sub(r"\1, !nontemporal !0", x) + f"\n{STREAMED}\n" for x in texts]
    (calls,), (shared,) = with_shared_functions(texts)
    assert shared.count(STREAMED) == 1
    assert sums([calls, shared], names) == sums(texts, names)


def test_a_distance_in_a_loop_is_given_to_what_stands_ahead_of_it() -> None:
    texts = [kernel(2, 56)[0], kernel(2, 64)[0]]
    _, (shared,) = with_shared_functions(texts)
    ahead, _, loop = shared.partition("br label")
    assert ahead.count("ptr %v.1, i64 %given.0") == 1
    assert "%given" not in loop
    assert loop.count("getelementptr") == texts[0].partition("br label")[2].count("getelementptr")


def test_a_distance_behind_what_a_loop_loads_keeps_kernels_apart() -> None:
    texts = [kernel(2, x, is_fixed=False)[0] for x in (56, 64)]
    assert with_shared_functions(texts) == (texts, [])


def test_a_kernel_that_others_are_not_like_stays() -> None:
    texts = [kernel(2, 56)[0], kernel(3, 64)[0], module(inner(2, 5))[0]]
    left, shared = with_shared_functions(texts)
    assert left[0] == texts[2]
    assert len(left) == 2
    assert len(shared) == 1


def test_modules_of_calls_say_so_and_are_the_same_code() -> None:
    (calls,), _ = with_shared_functions([kernel(2, x)[0] for x in (56, 64)])
    assert calls.startswith(CALLS)
    compiler = KernelCompiler(host_target())
    assert compiler.object_code(calls) == compiler.object_code(calls.removeprefix(CALLS))


def test_modules_of_calls_take_no_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("only there the code is known to be the same")
    (calls,), _ = with_shared_functions([kernel(2, x)[0] for x in (56, 64)])
    compiler = KernelCompiler(host_target())
    ran: list[object] = []
    monkeypatch.setattr(compiler, "_run", lambda *what: ran.append(what))
    compiler.object_code(calls)
    assert not ran
    compiler.object_code(calls.removeprefix(CALLS))
    assert ran
