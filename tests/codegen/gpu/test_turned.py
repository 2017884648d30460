"""Reads across memory through shared memory: emulated runs equal the evaluator."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.gpu.programs import check, flat, program_of, templates

from lowtide.emulator.device import on_emulated_device
from lowtide.llvm.ptx import ptx_of


def transpose(type_: str, rows: int = 192, columns: int = 256) -> str:
    return f"""
  x = {type_}[{rows},{columns}] parameter(0)
  ROOT r = {type_}[{columns},{rows}] transpose(x), dimensions={{1,0}}
"""


TURNED = {
    **{x: transpose(x) for x in ("f32", "bf16", "s8", "pred", "f64", "c64", "s64", "f16", "u16")},
    "odd sizes": transpose("f32", 131, 257),
    "odd sizes of bf16": transpose("bf16", 131, 257),
    "few columns": transpose("f32", 1000, 20),
    "few rows": transpose("f32", 20, 1000),
    "features last": """
  x = f32[3,24,15,31] parameter(0)
  ROOT r = f32[3,15,31,24] transpose(x), dimensions={0,2,3,1}
""",
    "features first": """
  x = bf16[3,16,16,40] parameter(0)
  ROOT r = bf16[3,40,16,16] transpose(x), dimensions={0,3,1,2}
""",
    "beside what lies along": """
  x = f32[192,256] parameter(0)
  y = f32[256,192] parameter(1)
  b = f32[192] parameter(2)
  t = f32[256,192] transpose(x), dimensions={1,0}
  bb = f32[256,192] broadcast(b), dimensions={1}
  a = f32[256,192] add(t, y)
  m = f32[256,192] multiply(a, bb)
  ROOT r = f32[256,192] tanh(m)
""",
    "an array and itself": """
  x = f32[192,192] parameter(0)
  t = f32[192,192] transpose(x), dimensions={1,0}
  a = f32[192,192] add(t, x)
  ROOT r = f32[192,192] multiply(a, t)
""",
    "two of different types": """
  x = bf16[192,256] parameter(0)
  y = f32[192,256] parameter(1)
  t = bf16[256,192] transpose(x), dimensions={1,0}
  u = f32[256,192] transpose(y), dimensions={1,0}
  v = f32[256,192] convert(t)
  ROOT r = f32[256,192] subtract(u, v)
""",
    "two results": """
  x = f32[192,256] parameter(0)
  y = f32[256,192] parameter(1)
  t = f32[256,192] transpose(x), dimensions={1,0}
  a = f32[256,192] add(t, y)
  b = f32[256,192] subtract(t, y)
  c = pred[256,192] compare(a, b), direction=GT
  ROOT r = (f32[256,192], pred[256,192]) tuple(a, c)
""",
    "a part": """
  x = f32[200,256] parameter(0)
  s = f32[150,160] slice(x), slice={[10:160],[32:192]}
  ROOT r = f32[160,150] transpose(s), dimensions={1,0}
""",
    "complex numbers that are computed": """
  x = c64[192,256] parameter(0)
  t = c64[256,192] transpose(x), dimensions={1,0}
  ROOT r = c64[256,192] multiply(t, t)
""",
}


@pytest.mark.parametrize("entry", TURNED.values(), ids=TURNED)
def test_turned(entry: str) -> None:
    program = check(entry, 1e-2 if "bf16" in entry else 1e-5)
    is_complex = "c64" in entry and "multiply" in entry
    assert templates(program) == (["points"] if is_complex else ["turned"])


def test_what_stays_last_is_not_turned() -> None:
    program = check(
        """
  x = f32[2,30,8,64] parameter(0)
  ROOT r = f32[2,8,30,64] transpose(x), dimensions={0,2,1,3}
"""
    )
    assert templates(program) == ["points"]


def test_memory_is_accessed_16_bytes_at_once() -> None:
    program = program_of(transpose("f32", 512, 512))
    ptx = ptx_of(program.texts[0], program.target)
    assert re.findall(r"(?:ld|st)\.global\.(\w+)", ptx) == ["v4"] * 8


def test_the_barrier_is_needed() -> None:
    program = program_of(transpose("f32"))
    text, count = re.subn(r"  call void @llvm.nvvm.barrier.*\n", "", program.texts[0])
    assert count == 1
    x = np.arange(192 * 256, dtype=np.float32).reshape(192, 256)
    (right,) = flat(on_emulated_device(program)(x))
    (wrong,) = flat(on_emulated_device(replace(program, texts=(text,)))(x))
    assert np.array_equal(right, x.T)
    assert not np.array_equal(wrong, x.T)
