"""What loops carry stays in registers: shifted vectors, and those shorter than a register."""

import numpy as np
import pytest
from tests.codegen.bundles.programs import assert_same_bits, program_of, results

from lowtide.client.executable.anew import compile_anew
from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.inspection.kernel_texts import kernel_texts
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.llvm.target import host_target
from lowtide.options import Options

SHIFTED = """HloModule m

body {{
  p = (s32[], {type_}[{size}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = {type_}[{size}] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  last = {type_}[1] slice(x), slice={{[{last}:{size}]}}
  rest = {type_}[{last}] slice(x), slice={{[0:{last}]}}
  new = {type_}[1] negate(last)
  y = {type_}[{size}] concatenate(new, rest), dimensions={{0}}
  z = {type_}[{size}] add(y, y)
  ROOT r = (s32[], {type_}[{size}]) tuple(next, z)
}}

condition {{
  p = (s32[], {type_}[{size}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}}

ENTRY e {{
  x = {type_}[{size}] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], {type_}[{size}]) tuple(zero, x)
  w = (s32[], {type_}[{size}]) while(t), condition=condition, body=body
  ROOT y = {type_}[{size}] get-tuple-element(w), index=1
}}
"""


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 64])
@pytest.mark.parametrize("type_", ["f32", "f64", "s32", "bf16", "s8", "c64"])
def test_vectors_that_move_by_one_place(type_: str, size: int, target: str) -> None:
    text = SHIFTED.format(type_=type_, size=size, last=size - 1)
    program = program_of(text, target=target)
    module = parse_hlo(text)
    (shape,) = [x.shape for x in module.entry.parameters]
    values = np.arange(1, size + 1) % 5
    given = values.astype(DTYPES[ElementType(type_)])
    assert shape.dimensions == given.shape
    expected = array_leaves(evaluate(module, [given]))
    for a, b in zip(results(program, given), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert_same_bits(program, given)


@pytest.mark.parametrize("size, target", [(0, "cpu"), (8, "cpu:avx2"), (5, "cpu:avx2")])
def test_a_vector_that_moves_is_not_read_beyond_its_ends(size: int, target: str) -> None:
    """A load from behind a store that overlaps it in part waits until memory has it.

    Size 0 stands for as many numbers as a vector of the processor has.
    """
    size = size or host_target().vector_bytes // 4
    text = SHIFTED.format(type_="f32", size=size, last=size - 1)
    planned = compile_anew(parse_hlo(text), Options(target=target))
    assert not any("llvm.masked.load" in x for _, x in kernel_texts(planned))


STACKED = """HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a1 = f32[1] slice(x), slice={[0:1]}
  b1 = f32[1] slice(x), slice={[1:2]}
  c1 = f32[1] slice(x), slice={[2:3]}
  d1 = f32[1] slice(x), slice={[3:4]}
  s = f32[1] add(a1, d1)
  t = f32[1] multiply(b1, c1)
  u = f32[1] subtract(s, t)
  v = f32[1] add(t, b1)
  y = f32[4] concatenate(s, t, u, v), dimensions={0}
  square = f32[4] multiply(y, y)
  zero = f32[] constant(0)
  total = f32[] reduce(square, zero), dimensions={0}, to_apply=sum
  length = f32[] sqrt(total)
  lengths = f32[4] broadcast(length), dimensions={}
  z = f32[4] divide(y, lengths)
  ROOT r = (s32[], f32[4]) tuple(next, z)
}

condition {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT y = f32[4] get-tuple-element(w), index=1
}
"""


@pytest.mark.parametrize("target", ["cpu", "cpu:avx2"])
def test_pieces_of_one_number_are_not_read_in_front_of_where_they_lie(target: str) -> None:
    """LLVM keeps in memory what is read from an address before its beginning."""
    planned = compile_anew(parse_hlo(STACKED), Options(target=target))
    assert not any("llvm.masked.load" in x for _, x in kernel_texts(planned))
    given = np.array([1, 2, -3, 0.5], np.float32)
    assert_same_bits(program_of(STACKED), given)
    expected = array_leaves(evaluate(parse_hlo(STACKED), [given]))
    for a, b in zip(results(program_of(STACKED), given), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
