"""Shuffles that take bytes of vectors in turn: right, and with an end for wide vectors.

LLVM 22 does not end where such a shuffle of one vector meets an operation with a constant.
"""

import subprocess
import sys

import numpy as np
import pytest
from tests.support import HANG_SECONDS

import lowtide
from lowtide.evaluator import evaluate
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text

WIDE = """
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import Target

features = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
target = Target("x86_64-unknown-linux-gnu", "skylake-avx512", features, 64)
for whole in (False, True):
    KernelCompiler(target).object_code(text, whole=whole)
"""


def text_of(lanes: int, start: int, step: str) -> str:
    """Return a function that stores pairs of bytes, changed by a constant."""
    fn = Function("f", parameters(p="ptr", q="ptr"))
    type_ = f"<{lanes} x i8>"
    value = fn.load(type_, "%p", 1)
    pairs = fn.shuffle(type_, value, value, [start + i // 2 for i in range(lanes)])
    fn.store(type_, fn.op(f"{step} {type_} {pairs}, splat (i8 15)"), "%q", 1)
    return module_text([fn])


@pytest.mark.parametrize("step", ["and", "or", "add", "mul"])
@pytest.mark.parametrize(("lanes", "start"), [(64, 0), (64, 32), (48, 0), (40, 20)])
def test_wide_pairs_end(lanes: int, start: int, step: str) -> None:
    program = f"text = {text_of(lanes, start, step)!r}\n{WIDE}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", [0, 16])
def test_two_vectors_in_turn_are_written_otherwise_when_long(first: int) -> None:
    fn = Function("f", parameters(p="ptr", q="ptr"))
    type_ = "<64 x i8>"
    order = [first + i // 2 + 64 * (i % 2) for i in range(64)]
    fn.shuffle(type_, "%a", "%b", order)
    text = module_text([fn])
    assert "shl <32 x i16>" in text and "%b" in text
    short = Function("g", parameters(p="ptr", q="ptr"))
    short.shuffle("<32 x i8>", "%a", "%b", [i // 2 + 32 * (i % 2) for i in range(32)])
    assert "shl" not in module_text([short])


PROGRAM = """HloModule m

ENTRY e {
  x = u8[SIZE] parameter(0)
  w = u8[SIZE,2] broadcast(x), dimensions={0}
  c = u8[] constant(15)
  d = u8[SIZE,2] broadcast(c), dimensions={}
  ROOT r = u8[SIZE,2] OP(w, d)
}
"""


@pytest.mark.parametrize("op", ["and", "add", "multiply", "maximum"])
@pytest.mark.parametrize("size", [40, 64, 200])
def test_doubled_bytes_with_a_constant(size: int, op: str) -> None:
    module = lowtide.parse_hlo(PROGRAM.replace("SIZE", str(size)).replace("OP", op))
    x = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    found = lowtide.compile(module, options=lowtide.Options(cache=False))(x)
    np.testing.assert_array_equal(found, evaluate(module, [x]))


@pytest.mark.parametrize("size", [40, 64, 200])
def test_bytes_of_two_arrays_in_turn(size: int) -> None:
    text = """HloModule m

ENTRY e {
  x = u8[SIZE] parameter(0)
  y = u8[SIZE] parameter(1)
  a = u8[SIZE,1] reshape(x)
  b = u8[SIZE,1] reshape(y)
  ROOT r = u8[SIZE,2] concatenate(a, b), dimensions={1}
}
""".replace("SIZE", str(size))
    module = lowtide.parse_hlo(text)
    draw = np.random.default_rng(size)
    x, y = (draw.integers(0, 256, size, np.uint8) for _ in range(2))
    found = lowtide.compile(module, options=lowtide.Options(cache=False))(x, y)
    np.testing.assert_array_equal(found, evaluate(module, [x, y]))
