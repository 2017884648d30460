"""Shuffles that repeat bytes of half a vector: right, and with an end for wide vectors.

LLVM 22 does not end for some of them for AVX-512, where it narrows what they read by itself.
"""

import json
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
import json
import sys

from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import Target

targets = {
    ("x86_64-unknown-linux-gnu", "skylake-avx512"): ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    ("x86_64-unknown-linux-gnu", "x86-64"): (),
    ("aarch64-unknown-linux-gnu", "generic"): ("neon",),
}
compilers = [KernelCompiler(Target(*name, x, 64)) for name, x in targets.items()]
for text in json.load(sys.stdin):
    for compiler in compilers:
        for whole in (False, True):
            compiler.object_code(text, whole=whole)
"""


def text_of(lanes: int, source: int, start: int, times: int, step: str) -> str:
    """Return a function that stores bytes of a value so many times each, changed by a step.

    The value is a combination of two arrays, what is stored one with a constant or with an array.
    """
    fn = Function("f", parameters(p="ptr", q="ptr", r="ptr"))
    read, type_ = f"<{source} x i8>", f"<{lanes} x i8>"
    value = fn.op(f"xor {read} {fn.load(read, '%p', 1)}, {fn.load(read, '%r', 1)}")
    order = [start + i // times for i in range(lanes)]
    bytes_ = fn.shuffle(read, value, value, order)
    if step:
        bytes_ = fn.op(f"{step} {type_} {bytes_}, splat (i8 15)")
    fn.store(type_, bytes_, "%q", 1)
    return module_text([fn])


def text_of_short(lanes: int, read: int, times: int) -> str:
    """Return a function that stores bytes of two short arrays, combined, so many times each.

    They are made wide and frozen, so that another freeze behind them is none.
    """
    fn = Function("f", parameters(p="ptr", q="ptr", r="ptr"))
    short, wide, type_ = f"<{read} x i8>", "<64 x i8>", f"<{lanes} x i8>"
    places = [min(i, read) for i in range(64)]
    taken = [
        fn.shuffle(short, fn.load(short, x, 1), "zeroinitializer", places) for x in ("%p", "%r")
    ]
    value = fn.op(f"xor {wide} {', '.join([fn.op(f'freeze {wide} {x}') for x in taken])}")
    few = fn.shuffle(wide, value, "poison", range(read))
    again = fn.op(f"freeze {wide} {fn.shuffle(short, few, 'zeroinitializer', places)}")
    fn.store(type_, fn.shuffle(wide, again, again, [i // times for i in range(lanes)]), "%q", 1)
    return module_text([fn])


SHUFFLES = [
    (lanes, source, start, times)
    for lanes in (64, 60, 48, 40)
    for source in (64, 40)
    for start in (0, 5, 20, 32)
    for times in (2, 3, 4, 5)
    if start + (lanes - 1) // times < source
]


@pytest.mark.parametrize("step", ["", "and", "add"])
def test_repeated_bytes_end(step: str) -> None:
    texts = [text_of(*shuffle, step) for shuffle in SHUFFLES]
    texts += [text_of_short(60, 20, 3), text_of_short(64, 32, 2), text_of_short(48, 24, 2)]
    done = subprocess.run(
        [sys.executable, "-c", WIDE],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr


def test_halves_are_taken_and_fenced() -> None:
    fn = Function("f", parameters(p="ptr", q="ptr"))
    order = [x for i in range(32) for x in (32 + i, 64 + i)]
    fn.shuffle("<64 x i8>", "%a", "%b", order)
    text = module_text([fn])
    assert text.count("call <8 x float> @llvm.arithmetic.fence.v8f32") == 2
    for short in ("<32 x i8>", "<64 x i16>"):
        other = Function("g", parameters(p="ptr", q="ptr"))
        other.shuffle(short, "%a", "%b", [i // 2 for i in range(64)])
        assert "fence" not in module_text([other])


PROGRAM = """HloModule m

ENTRY e {
  x = u8[SIZE] parameter(0)
  w = u8[SIZE,2] broadcast(x), dimensions={0}
  c = u8[] constant(15)
  d = u8[SIZE,2] broadcast(c), dimensions={}
  ROOT r = u8[SIZE,2] OP(w, d)
}
"""


@pytest.mark.parametrize("times", [3, 5, 7])
@pytest.mark.parametrize("size", [22, 33, 64, 200])
def test_repeated_bytes_of_a_combination(size: int, times: int) -> None:
    module = lowtide.parse_hlo(f"""HloModule m

ENTRY e {{
  x = u8[{size}] parameter(0)
  y = u8[{size}] parameter(1)
  z = u8[{size}] xor(x, y)
  ROOT r = u8[{size},{times}] broadcast(z), dimensions={{0}}
}}
""")
    draw = np.random.default_rng(size)
    x, y = (draw.integers(0, 256, size, np.uint8) for _ in range(2))
    found = lowtide.compile(module, options=lowtide.Options(cache=False))(x, y)
    np.testing.assert_array_equal(found, evaluate(module, [x, y]))


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
