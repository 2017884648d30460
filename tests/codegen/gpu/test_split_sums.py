"""Long sums of which there are few, in several launches: emulated runs equal the evaluator."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.gpu.programs import check, flat, program_of, templates

from lowtide.emulator.device import on_emulated_device
from lowtide.emulator.shadow import EmulationError

ALL = """
  x = f32[519,1024] parameter(0)
  z = f32[] constant(2.5)
  ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add
"""
COLUMNS = """
  x = f32[2500,264] parameter(0)
  z = f32[] constant(1.5)
  ROOT r = f32[264] reduce(x, z), dimensions={0}, to_apply=add
"""
SUMS = {
    "all": ALL,
    "columns": COLUMNS,
    "an odd number": """
  x = f32[300001] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add
""",
    "all of f64": """
  x = f64[30,50,177] parameter(0)
  z = f64[] constant(0)
  ROOT r = f64[] reduce(x, z), dimensions={0,1,2}, to_apply=addd
""",
    "all of c64": """
  x = c64[300,1000] parameter(0)
  z = c64[] constant((1, 2))
  ROOT r = c64[] reduce(x, z), dimensions={0,1}, to_apply=addc
""",
    "truth": """
  x = pred[300,1000] parameter(0)
  z = pred[] constant(true)
  ROOT r = pred[] reduce(x, z), dimensions={0,1}, to_apply=both
""",
    "the largest bf16": """
  x = bf16[512,1024] parameter(0)
  z = bf16[] constant(-inf)
  ROOT r = bf16[] reduce(x, z), dimensions={0,1}, to_apply=largestb
""",
    "long rows, few": """
  x = s32[3,100000] parameter(0)
  z = s32[] constant(100)
  ROOT r = s32[3] reduce(x, z), dimensions={1}, to_apply=least
""",
    "features first": """
  x = f32[40,3,56,56] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[3] reduce(x, z), dimensions={0,2,3}, to_apply=add
""",
    "features last": """
  x = f32[4,40,40,64] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[64] reduce(x, z), dimensions={0,1,2}, to_apply=add
""",
    "the middle": """
  x = f32[5,300,200] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[5,200] reduce(x, z), dimensions={1}, to_apply=add
""",
    "first and middle": """
  x = f32[50,7,50,24] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[7,24] reduce(x, z), dimensions={0,2}, to_apply=add
""",
    "columns of truth": """
  x = pred[1000,272] parameter(0)
  z = pred[] constant(true)
  ROOT r = pred[272] reduce(x, z), dimensions={0}, to_apply=both
""",
    "columns of bf16": """
  x = bf16[1000,272] parameter(0)
  z = bf16[] constant(0)
  ROOT r = bf16[272] reduce(x, z), dimensions={0}, to_apply=addb
""",
    "columns of f64": """
  x = f64[1000,266] parameter(0)
  z = f64[] constant(0)
  ROOT r = f64[266] reduce(x, z), dimensions={0}, to_apply=addd
""",
    "columns of c64": """
  x = c64[1000,266] parameter(0)
  z = c64[] constant((0, 1))
  ROOT r = c64[266] reduce(x, z), dimensions={0}, to_apply=addc
""",
    "three columns": """
  x = f32[100000,3] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=add
""",
    "columns, an odd number": """
  x = f32[2000,133] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[133] reduce(x, z), dimensions={0}, to_apply=add
""",
    "of what is made of another sum": """
  x = f32[2,400,256] parameter(0)
  k = f32[1024,2] parameter(1)
  z = f32[] constant(0)
  s = f32[2,256] reduce(x, z), dimensions={1}, to_apply=add
  d = f32[1024,256] dot(k, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[] reduce(d, z), dimensions={0,1}, to_apply=add
""",
    "mean of squares": """
  x = f32[512,600] parameter(0)
  y = f32[512,600] parameter(1)
  d = f32[512,600] subtract(x, y)
  q = f32[512,600] multiply(d, d)
  z = f32[] constant(0)
  s = f32[] reduce(q, z), dimensions={0,1}, to_apply=add
  n = f32[] constant(3.2552083e-06)
  ROOT r = f32[] multiply(s, n)
""",
    "mean and variance of features": """
  x = f32[4,40,40,64] parameter(0)
  z = f32[] constant(0)
  q = f32[4,40,40,64] multiply(x, x)
  s = f32[64] reduce(x, z), dimensions={0,1,2}, to_apply=add
  t = f32[64] reduce(q, z), dimensions={0,1,2}, to_apply=add
  n = f32[] constant(0.00015625)
  nb = f32[64] broadcast(n), dimensions={}
  m = f32[64] multiply(s, nb)
  v = f32[64] multiply(t, nb)
  w = f32[64] multiply(m, m)
  u = f32[64] subtract(v, w)
  ROOT r = (f32[64], f32[64]) tuple(m, u)
""",
    "a sum made of a sum": """
  x = f32[1100,264] parameter(0)
  z = f32[] constant(0)
  s = f32[264] reduce(x, z), dimensions={0}, to_apply=add
  n = f32[] constant(0.0009090909)
  nb = f32[264] broadcast(n), dimensions={}
  m = f32[264] multiply(s, nb)
  mb = f32[1100,264] broadcast(m), dimensions={1}
  d = f32[1100,264] subtract(x, mb)
  q = f32[1100,264] multiply(d, d)
  v = f32[264] reduce(q, z), dimensions={0}, to_apply=add
  ROOT r = (f32[264], f32[264]) tuple(m, v)
""",
    "all over the sum": """
  x = f32[512,600] parameter(0)
  z = f32[] constant(0)
  s = f32[] reduce(x, z), dimensions={0,1}, to_apply=add
  sb = f32[512,600] broadcast(s), dimensions={}
  ROOT r = f32[512,600] subtract(x, sb)
""",
}


SPREAD = """
  x = f32[16,32,64] parameter(0)
  w = f32[8,64] parameter(1)
  z = f32[] constant(-inf)
  xb = f32[16,32,8,64] broadcast(x), dimensions={0,1,3}
  wb = f32[16,32,8,64] broadcast(w), dimensions={2,3}
  o = f32[16,32,8,64] multiply(xb, wb)
  ROOT r = f32[32,64] reduce(o, z), dimensions={0,2}, to_apply=largest
"""


def test_what_is_spread_is_summed_across_memory() -> None:
    """No block for each sum, of values that are the same along the last dimension of memory."""
    (kernel,) = check(SPREAD).kernels
    assert kernel.template == "sums"
    assert kernel.launches[0].blocks <= 512


@pytest.mark.parametrize("entry", SUMS.values(), ids=SUMS)
def test_sums(entry: str) -> None:
    program = check(entry, 1e-2 if "bf16" in entry else 1e-4)
    assert "sums" in templates(program)
    assert max([y.blocks for x in program.kernels for y in x.launches]) >= 8


@pytest.mark.parametrize("entry", [ALL, COLUMNS], ids=["all", "columns"])
def test_each_barrier_of_a_term_is_needed(entry: str) -> None:
    """Without any one of them two threads touch shared memory between the same barriers."""
    program = program_of(entry)
    x = np.ones((519, 1024) if "519" in entry else (2500, 264), np.float32)
    (want,) = flat(on_emulated_device(program)(x))
    assert np.all(want == x.sum(None if "519" in entry else 0) + (2.5 if "519" in entry else 1.5))
    found = 0
    (text,) = program.texts
    barriers = list(re.finditer(r"  call void @llvm.nvvm.barrier.*\n", text))
    for barrier in barriers:
        without = text[: barrier.start()] + text[barrier.end() :]
        try:
            on_emulated_device(replace(program, texts=(without,)))(x)
        except EmulationError as error:
            found += "race" in str(error)
    assert found >= len(barriers) - 2


def test_sums_do_not_depend_on_the_device() -> None:
    """The number of terms is one of shapes: equal on all architectures."""
    (kernel,) = program_of(COLUMNS).kernels
    assert kernel.scratch_bytes > 0
    assert len(kernel.launches) == 2
