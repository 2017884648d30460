"""The emulator: control flow, layouts, arguments, and which kernels wait."""

from __future__ import annotations

import numpy as np
import pytest
from tests.codegen.gpu.programs import check, flat, program_of

from lowtide.backends.build import build
from lowtide.backends.gpu import GpuBackend
from lowtide.codegen.emulated.host_text import type_bytes, waiting_kernels
from lowtide.emulator.device import on_emulated_device
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import InputError

LOOP = """HloModule m

body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[8] add(x, x)
  ROOT r = (s32[], f32[8]) tuple(n, y)
}

condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(5)
  ROOT less = pred[] compare(i, limit), direction=LT
}

double {
  x = f32[8] parameter(0)
  ROOT y = f32[8] add(x, x)
}

same {
  x = f32[8] parameter(0)
  ROOT y = f32[8] negate(x)
}

ENTRY e {
  x = f32[8] parameter(0)
  k = s32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(start), condition=condition, body=body
  z = f32[8] get-tuple-element(w), index=1
  c = f32[8] conditional(k, z, z), branch_computations={double, same}
  ROOT r = (f32[8], f32[8]) tuple(z, c)
}
"""


@pytest.mark.parametrize(("branch", "factor"), [(0, 2.0), (1, -1.0), (7, -1.0), (-1, -1.0)])
def test_loops_and_branches(branch: int, factor: float) -> None:
    program = build(parse_hlo(LOOP), GpuBackend("cuda")).program
    x = np.arange(8, dtype=np.float32)
    first, second = on_emulated_device(program)(x, np.int32(branch))
    assert np.array_equal(first, 32 * x)
    assert np.array_equal(second, factor * 32 * x)
    assert np.array_equal(x, np.arange(8))


def test_results_in_other_layouts() -> None:
    text = """HloModule m, entry_computation_layout={(f32[3,5]{0,1})->f32[3,5]{0,1}}

ENTRY e {
  x = f32[3,5]{0,1} parameter(0)
  ROOT y = f32[3,5]{0,1} negate(x)
}
"""
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    program = build(parse_hlo(text), GpuBackend("cuda")).program
    (found,) = flat(on_emulated_device(program)(x))
    assert np.array_equal(found, -x)


def test_constants_and_empty_arrays() -> None:
    check(
        """
  x = f32[0,3] parameter(0)
  c = f32[2,3] constant({{1,2,3},{4,5,6}})
  ROOT r = f32[2,3] concatenate(x, c), dimensions={0}
"""
    )


def test_arguments_are_checked() -> None:
    program = on_emulated_device(
        program_of("  x = f32[3] parameter(0)\n  ROOT y = f32[3] negate(x)\n")
    )
    with pytest.raises(InputError, match="takes 1 arrays, 2 were given"):
        program(np.zeros(3, np.float32), np.zeros(3, np.float32))
    with pytest.raises(InputError):
        program(np.zeros(4, np.float32))


def test_types_have_sizes() -> None:
    found = [type_bytes(x) for x in ("float", "i8", "<4 x float>", "<2 x half>", "double", "i64")]
    assert found == [4, 1, 16, 4, 8, 8]


def test_which_kernels_wait() -> None:
    text = (
        "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n"
        "define ptx_kernel void @a() {\n"
        "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n  ret void\n}\n"
        "define ptx_kernel void @b() {\n  ret void\n}\n"
    )
    assert waiting_kernels(text) == {"a"}
