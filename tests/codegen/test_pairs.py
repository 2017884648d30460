"""Vectors of bf16 whose even elements come first."""

import re

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import check_program
from tests.codegen.loops import run_kernel, target_of, the_root
from tests.codegen.test_loop import kernel

from lowtide.codegen.cpu import element_streaming
from lowtide.codegen.cpu.loop import plan_loop
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.llvm.function import module_text

BF16 = DTYPES[ElementType.BF16]

EVERY = np.arange(1 << 16, dtype=np.uint16).view(BF16)
"""All elements of bf16, infinities and subnormal ones too, but zeros in place of NaN."""
EVERY[np.isnan(EVERY.astype(np.float32))] = 0

ROWS = """
HloModule m
plus {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  x = bf16[{m},{n}] parameter(0)
  scale = bf16[{n}] parameter(1)
  zero = f32[] constant(0)
  count = f32[] constant({n})
  wide = f32[{m},{n}] convert(x)
  sum = f32[{m}] reduce(wide, zero), dimensions={{1}}, to_apply=plus
  counts = f32[{m}] broadcast(count), dimensions={{}}
  mean = f32[{m}] divide(sum, counts)
  narrow = bf16[{m}] convert(mean)
  means = bf16[{m},{n}] broadcast(narrow), dimensions={{0}}
  off = bf16[{m},{n}] subtract(x, means)
  square = bf16[{m},{n}] multiply(off, off)
  squares = f32[{m},{n}] convert(square)
  total = f32[{m}] reduce(squares, zero), dimensions={{1}}, to_apply=plus
  root = f32[{m}] sqrt(total)
  size = bf16[{m}] convert(root)
  sizes = bf16[{m},{n}] broadcast(size), dimensions={{0}}
  quotient = bf16[{m},{n}] divide(off, sizes)
  scales = bf16[{m},{n}] broadcast(scale), dimensions={{1}}
  scaled = bf16[{m},{n}] multiply(quotient, scales)
  ROOT r = (bf16[{m},{n}], bf16[{m}]) tuple(scaled, narrow)
}}
"""


def is_paired(text: str, target: str) -> bool:
    """Whether a kernel of loops reads words of two elements."""
    code = plan_loop(parse_hlo(text).entry.root, target_of(target)).emit()
    return re.search(r"load <\d+ x i32>", module_text(code.functions, code.globals)) is not None


@pytest.mark.parametrize("opcode", ["negate", "sqrt", "tanh"])
def test_every_element_is_where_it_was_with_the_bits_that_it_had(opcode: str) -> None:
    text = kernel(f"y = bf16[65536] {opcode}(x)", x="bf16[65536]")
    module = parse_hlo(text)
    assert is_paired(text, "avx2")
    with np.errstate(all="ignore"):
        wanted = np.asarray(evaluate(module, [EVERY]), np.float32)
    for at_end in (False, True):
        with np.errstate(all="ignore"):
            (found,) = run_kernel(module.entry.root, [EVERY], target_of("avx2"), 3, at_end=at_end)
            got = np.asarray(found, np.float32)
        np.testing.assert_allclose(got, wanted, rtol=0.01 if opcode == "tanh" else 0)
        np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


PAIRED = [
    ("y = bf16[4,32] add(x, x)", {"x": "bf16[4,32]"}, True),
    ("b = bf16[3,64] broadcast(x), dimensions={0}\ny = bf16[3,64] add(b, z)",
     {"x": "bf16[3]", "z": "bf16[3,64]"}, True),
    ("y = bf16[3,24] add(x, x)", {"x": "bf16[3,24]"}, False),
    ("y = f32[4,32] convert(x)", {"x": "bf16[4,32]"}, False),
    ("w = bf16[4,32] convert(z)\ny = bf16[4,32] add(x, w)",
     {"x": "bf16[4,32]", "z": "f32[4,32]"}, False),
    ("i = bf16[4,32] iota(), iota_dimension=1\ny = bf16[4,32] add(x, i)",
     {"x": "bf16[4,32]"}, False),
    ("t = bf16[32,32] transpose(x), dimensions={1,0}\ny = bf16[32,32] add(x, t)",
     {"x": "bf16[32,32]"}, False),
    ("r = bf16[4,32] reverse(x), dimensions={1}\ny = bf16[4,32] add(x, r)",
     {"x": "bf16[4,32]"}, False),
    ("c = bf16[4,32] concatenate(x, x), dimensions={1}\ny = bf16[4,32] add(c, c)",
     {"x": "bf16[4,16]"}, False),
    ("y = f16[4,32] add(x, x)", {"x": "f16[4,32]"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("body", "given", "expected"), PAIRED)
def test_pairs_are_of_whole_vectors_of_bf16_alone(body: str, given: dict, expected: bool) -> None:
    text = kernel(body, **given)
    assert is_paired(text, "avx2") == expected
    module = parse_hlo(text)
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal(x.shape.dimensions).astype(DTYPES[x.shape.element_type])
        for x in module.entry.parameters
    ]
    (found,) = run_kernel(the_root(module), inputs, target_of("avx2"), 3, at_end=True)
    wanted = np.asarray(evaluate(module, inputs))
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("m", "n"), [(1, 64), (9, 768), (70, 32), (5, 100), (3, 4096), (33, 48)])
def test_rows(m: int, n: int, is_streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_streamed:
        monkeypatch.setattr(element_streaming, "STREAMED_BYTES", 0)
    rng = np.random.default_rng(0)
    x, scale = (rng.standard_normal(shape).astype(BF16) for shape in ((m, n), n))
    x[0, n // 2], x[-1, n - 1] = np.inf, np.nan
    check_program(ROWS.format(m=m, n=n), [x, scale], ["rows"], "avx2")
