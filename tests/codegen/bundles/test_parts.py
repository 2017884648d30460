"""Kernels that only bundles run: they have no machine code until the parts run one by one."""

from __future__ import annotations

import numpy as np
import pytest

import lowtide
from lowtide.inspection.sanitizer import sanitize
from lowtide.ir.thunk import BundleThunk, all_thunks, kernels_of_bundles
from lowtide.llvm.machine import KernelCompiler
from lowtide.options import Options

LOOP = """
HloModule loop

cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT less = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[4] sine(x)
  z = f32[4] multiply(y, x)
  r = f32[4] reverse(z), dimensions={0}
  ROOT t = (s32[], f32[4]) tuple(next, r)
}

ENTRY e {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(start), condition=cond, body=body
  ROOT x.end = f32[4] get-tuple-element(w), index=1
}
"""

X = np.array([0.5, -2, 3, 0.25], np.float32)


@pytest.fixture
def compiled_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the modules that LLVM compiles from now on."""
    found: list[str] = []
    compiled = KernelCompiler.object_code

    def counted(self: KernelCompiler, text: str, *, whole: bool = False) -> bytes:
        found.append(text)
        return compiled(self, text, whole=whole)

    monkeypatch.setattr(KernelCompiler, "object_code", counted)
    return found


def loop() -> lowtide.Module:
    return lowtide.parse_hlo(LOOP)


def expected() -> np.ndarray:
    return lowtide.evaluate(loop(), [X])


def test_a_small_loop_is_one_module_for_llvm(compiled_texts: list[str]) -> None:
    options = Options(cache=False, threads=1)
    lowtide.compile(loop(), options=options)  # What programs have in common is there now.
    del compiled_texts[:]
    executable = lowtide.compile(loop(), options=options)
    assert len(compiled_texts) == 1
    np.testing.assert_allclose(executable(X), expected(), rtol=1e-6)
    assert len(compiled_texts) == 1
    spans = executable.profile(X)
    assert len(compiled_texts) > 1
    assert spans is not None
    np.testing.assert_array_equal(executable(X), lowtide.compile(loop(), options=options)(X))


def test_parts_of_a_stored_program_can_be_run(compiled_texts: list[str]) -> None:
    stored = lowtide.compile(loop(), options=Options(threads=1)).serialize()
    del compiled_texts[:]
    executable = lowtide.deserialize(stored)
    program = executable.program
    assert {number for number, _ in program.part_texts} == kernels_of_bundles(program.thunks)
    np.testing.assert_allclose(executable(X), expected(), rtol=1e-6)
    assert compiled_texts == []
    executable.profile(X)
    assert len(compiled_texts) == len({text for _, text in program.part_texts}) > 0


def test_the_sanitizer_runs_the_parts() -> None:
    found = sanitize(loop(), [X])
    assert found.thunks > 3


def test_a_kernel_that_runs_alone_too_has_code() -> None:
    program = lowtide.compile(loop(), options=Options(threads=1)).program
    bundle = next(x for x in all_thunks(program.thunks) if isinstance(x, BundleThunk))
    inner = kernels_of_bundles(program.thunks)
    assert inner
    assert kernels_of_bundles((bundle, *bundle.parts)) == frozenset()


def test_isolated_compilation_leaves_nothing_for_later() -> None:
    options = Options(threads=1, cache=False, isolate=True)
    assert lowtide.compile(loop(), options=options).program.part_texts == ()
