"""Products read nothing behind their operands, which may end where the memory of a process does."""

from __future__ import annotations

import os
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


CONVOLUTION = """
import ctypes, mmap, sys
import numpy as np
import lowtide

made, wide, edge = sys.argv[1], *map(int, sys.argv[2:])
places = wide + 2 * edge - 2
system = ctypes.CDLL(None)
system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
shape = (1, 32, 12, 32)
size = int(np.prod(shape)) * 4
assert size % mmap.PAGESIZE == 0
memory = mmap.mmap(-1, size + 2 * mmap.PAGESIZE)
x = np.frombuffer(memory, np.float32, size // 4, mmap.PAGESIZE).reshape(shape)
x[...] = np.random.default_rng(0).integers(-3, 4, shape)
for place in (x.ctypes.data - mmap.PAGESIZE, x.ctypes.data + size):
    assert system.mprotect(place, mmap.PAGESIZE, 0) == 0
w = np.random.default_rng(1).integers(-3, 4, (40, 32, 3, 3)).astype(np.float32)
text = f'''HloModule m, is_scheduled=true
body {{
  x = f32[1,32,12,32] parameter(0)
  w = f32[40,32,3,3] parameter(1)
  one = f32[] constant(1)
  y = f32[1,32,12,3] broadcast(one), dimensions={{}}
  p = f32[1,32,12,{wide}] {made}
  x1 = f32[1,12,{wide},32] transpose(p), dimensions={{0,2,3,1}}
  w1 = f32[3,3,32,40] transpose(w), dimensions={{2,3,1,0}}
  c = f32[1,12,{places},40] convolution(x1, w1), window={{size=3x3 pad=1_1x{edge}_{edge}}},
    dim_labels=b01f_01io->b01f
  ROOT t = f32[1,40,12,{places}] transpose(c), dimensions={{0,3,1,2}}
}}
ENTRY e {{
  x = f32[1,32,12,32] parameter(0)
  w = f32[40,32,3,3] parameter(1)
  ROOT f = f32[1,40,12,{places}] fusion(x, w), kind=kOutput, calls=body
}}'''
module = lowtide.parse_hlo(text)
run = lowtide.compile(module, threads=1)
np.testing.assert_array_equal(run(x, w), lowtide.evaluate(module, [x, w]))
"""


@pytest.mark.parametrize(
    ("made", "wide", "edge"),
    [
        ("pad(x, one), padding=0_0x0_0x0_0x2_1", 35, 1),
        ("concatenate(x, y), dimensions={3}", 35, 1),
        ("concatenate(y, x), dimensions={3}", 35, 1),
        ("negate(x)", 32, -1),
        ("negate(x)", 32, -2),
    ],
)
def test_a_convolution_reads_nothing_around_its_image(made: str, wide: int, edge: int) -> None:
    """Squares that are transposed would reach beyond the ends of the array."""
    found = subprocess.run(
        [sys.executable, "-c", CONVOLUTION, made, str(wide), str(edge)],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr


WIDE = """
import ctypes, mmap
import numpy as np
import lowtide

system = ctypes.CDLL(None)
system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
shape = (1, 64, 4, 1024)
size = int(np.prod(shape)) * 4
memory = mmap.mmap(-1, size + mmap.PAGESIZE)
x = np.frombuffer(memory, np.float32, size // 4).reshape(shape)
x[...] = np.random.default_rng(0).integers(-3, 4, shape)
assert system.mprotect(x.ctypes.data + size, mmap.PAGESIZE, 0) == 0
w = np.random.default_rng(1).integers(-3, 4, (64, 64, 3, 3)).astype(np.float32)
text = '''HloModule m
ENTRY e {
  x = f32[1,64,4,1024] parameter(0)
  w = f32[64,64,3,3] parameter(1)
  ROOT c = f32[1,64,4,1024] convolution(x, w), window={size=3x3 pad=1_1x1_1},
    dim_labels=bf01_oi01->bf01
}'''
module = lowtide.parse_hlo(text)
run = lowtide.compile(module, threads=1)
np.testing.assert_array_equal(run(x, w), lowtide.evaluate(module, [x, w]))
"""


def test_blocks_of_wide_images_end_with_these() -> None:
    """The second block of a line begins one before a multiple of what is loaded at once."""
    found = subprocess.run([sys.executable, "-c", WIDE], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


BOTH_ENDS = """
import ctypes, mmap, sys
import numpy as np
import lowtide

system = ctypes.CDLL(None)
system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
module = lowtide.parse_hlo(sys.argv[1])
run = lowtide.compile(module, threads=1)
kept = []


def between(shape, seed, at_end):
    size = int(np.prod(shape)) * 4
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + 2 * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    kept.append((memory, whole))
    for place in (0, mmap.PAGESIZE + pages):
        assert system.mprotect(whole.ctypes.data + place, mmap.PAGESIZE, 0) == 0
    start = mmap.PAGESIZE + (pages - size if at_end else 0)
    found = np.frombuffer(memory, np.float32, size // 4, start).reshape(shape)
    found[...] = np.random.default_rng(seed).integers(-3, 4, shape)
    return found


for at_end in (False, True):
    given = [
        between(x.shape.dimensions, i, at_end) for i, x in enumerate(module.entry.parameters)
    ]
    np.testing.assert_array_equal(run(*given), lowtide.evaluate(module, given))
"""

INPUT, FILTER = "b01f_01io->b01f", "f01b_i01o->b01f"


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(
    ("labels", "shapes", "window"),
    [
        (INPUT, "2,9,14,16 1,1,16,24 2,18,28,24", "size=1x1 pad=0_1x0_1 lhs_dilate=2x2"),
        (INPUT, "1,7,5,16 1,1,16,19 1,21,14,19", "size=1x1 pad=0_2x0_1 lhs_dilate=3x3"),
        (INPUT, "2,9,6,32 2,2,32,11 2,26,17,11", "size=2x2 pad=1_1x1_1 lhs_dilate=3x3"),
        (FILTER, "4,28,28,32 4,14,14,16 32,3,3,16", "size=14x14 pad=0_1x0_1 rhs_dilate=2x2"),
        (FILTER, "3,30,30,16 3,10,10,24 16,3,3,24", "size=10x10 rhs_dilate=3x3"),
    ],
)
def test_convolutions_read_nothing_around_arrays(
    labels: str, shapes: str, window: str, target: str
) -> None:
    """Gradients of strided convolutions; one in whose result most places meet nothing."""
    x, w, y = shapes.split()
    text = (
        f"HloModule m\nENTRY e {{\n  x = f32[{x}] parameter(0)\n  w = f32[{w}] parameter(1)\n"
        f"  ROOT y = f32[{y}] convolution(x, w), window={{{window}}}, dim_labels={labels}\n}}"
    )
    found = subprocess.run(
        [sys.executable, "-c", BOTH_ENDS, text],
        capture_output=True,
        text=True,
        env=os.environ | {"LOWTIDE_OPTIONS": f"target={target}"},
    )
    assert found.returncode == 0, found.stderr
