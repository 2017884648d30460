"""Products read nothing behind their operands, which may end where the memory of a process does."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, mmap, sys
import numpy as np
import lowtide

k, m, n = map(int, sys.argv[1:])
system = ctypes.CDLL(None)
system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
pages = -(-k * m * 4 // mmap.PAGESIZE) * mmap.PAGESIZE
memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
a = np.frombuffer(memory, np.float32, k * m, pages - k * m * 4).reshape(k, m)
a[...] = np.random.default_rng(0).integers(-3, 4, (k, m))
start = a.ctypes.data + a.nbytes
assert start % mmap.PAGESIZE == 0
assert system.mprotect(start, mmap.PAGESIZE, 0) == 0
d = np.ones((k, n), np.float32)
text = f'''HloModule m
ENTRY e {{
  a = f32[{k},{m}] parameter(0)
  d = f32[{k},{n}] parameter(1)
  z = f32[] constant(0)
  b = f32[{k},{m}] broadcast(z), dimensions={{}}
  h = f32[{k},{m}] maximum(a, b)
  ROOT g = f32[{m},{n}] dot(h, d), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
}}
'''
run = lowtide.compile(lowtide.parse_hlo(text), threads=1)
np.testing.assert_array_equal(run(a, d), np.maximum(a, 0).T @ d)
"""


@pytest.mark.parametrize("sizes", [(4, 20, 12), (3, 16, 16), (8, 32, 16), (17, 16, 16)])
def test_a_product_of_a_fused_operand_reads_no_row_too_many(sizes: tuple[int, ...]) -> None:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, sizes)], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
