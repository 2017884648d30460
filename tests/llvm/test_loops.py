"""Loops that strength reduction leaves as written: which they are, and that they do the same."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.library import Library
from lowtide.llvm.loops import OPEN, with_open_counters
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.named_targets import NAMED_TARGETS
from lowtide.llvm.objects import environment
from lowtide.llvm.target import host_target

STEPS = 3
"""How many elements an iteration writes, each by a call."""

OPENED = ".closed = add nsw i64"
"""What a counter is before it passes through a piece of assembly."""

STORE = Function("store", parameters(to="ptr", value="i64"), linkage="internal")
STORE.store("i64", "%value", "%to", 8)


def written(f: Function, index: str | int) -> None:
    """Write to[16 * (index + step)] = 3 * index + step for each step."""
    for step in range(STEPS):
        place = f.mul(f.add(index, step), 128)
        f.call(STORE, [f.gep("%to", place), f.add(f.mul(index, 3), step)])


def known(f: Function) -> None:
    with f.loop(0, 24, STEPS) as loop:
        written(f, loop.index)


def unknown(f: Function) -> None:
    with f.loop("%begin", "%end", STEPS) as loop:
        written(f, loop.index)


def nested(f: Function) -> None:
    with f.loop("%begin", "%end", 2 * STEPS) as outer, f.loop(0, 2) as inner:
        written(f, f.add(outer.index, f.mul(inner.index, STEPS)))


def with_a_branch(f: Function) -> None:
    with f.loop("%begin", "%end", STEPS) as loop, f.when(f.compare("slt", loop.index, 100)):
        written(f, loop.index)


def carrying(f: Function) -> None:
    with f.loop("%begin", "%end", STEPS, [("i64", "0")]) as loop:
        written(f, loop.index)
        loop.next = [str(f.add(loop.values[0], loop.index))]
    f.store("i64", f.sub(loop.results[0], sum(range(0, 24, STEPS))), f.gep("%to", 8), 8)


def module(write: Callable[[Function], None]) -> str:
    f = Function("fill", parameters(to="ptr", begin="i64", end="i64"))
    write(f)
    return module_text([STORE, f])


def filled(code: bytes) -> np.ndarray:
    library = Library([code], ["fill"], host_target())
    to = np.zeros(24 * 16, np.int64)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    call(library["fill"])(to.ctypes.data, 0, 24)
    return to


@pytest.mark.parametrize("write", [known, unknown, nested, with_a_branch, carrying])
def test_open_counters_count_as_closed_ones_do(write):
    text = module(write)
    opened = with_open_counters(text)
    assert opened.count(OPENED) == text.count(OPEN) > 0
    assert OPEN not in opened
    expected = np.zeros((24, 16), np.int64)
    expected[:, 0] = [3 * (i - i % STEPS) + i % STEPS for i in range(24)]
    compiler = KernelCompiler(host_target())
    for each in (text, opened):
        np.testing.assert_array_equal(filled(compiler._compiled(each, 1)), expected.ravel())


def test_each_loop_is_open():
    text = module(nested)
    assert text.count(OPEN) == 2


def compiled(monkeypatch: pytest.MonkeyPatch, processor: str, text: str, *, whole: bool) -> str:
    """Return the text that LLVM is given."""
    compiler = KernelCompiler(NAMED_TARGETS[processor])
    given: list[str] = []
    monkeypatch.setattr(compiler, "_compiled", lambda x, **_: given.append(x))
    compiler.object_code(text, whole=whole)
    return given[0]


def test_kernels_for_x86_are_opened_others_and_bundles_are_not(monkeypatch):
    text = module(unknown)
    assert OPENED in compiled(monkeypatch, "x86-64", text, whole=False)
    assert compiled(monkeypatch, "x86-64", text, whole=True) == text
    assert compiled(monkeypatch, "aarch64", text, whole=False) == text
    assert compiled(monkeypatch, "cortex-m4", text, whole=False) == text


def test_what_is_opened_is_part_of_the_key(monkeypatch):
    target = host_target()
    before = environment(target)
    environment.cache_clear()
    monkeypatch.setattr("lowtide.llvm.objects.COUNTERS", "all")
    after = environment(target)
    environment.cache_clear()
    assert before != after
