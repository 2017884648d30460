"""Products with few rows or columns: all layouts and types beside the evaluator."""

from __future__ import annotations

import re

import pytest
from tests.codegen.gpu.programs import check, program_of, templates, text_of
from tests.codegen.gpu.test_tiles import LAYOUTS, laid_out

from lowtide.cli.inputs import generated
from lowtide.codegen.emulated.host_text import shared_bytes
from lowtide.emulator.device import on_emulated_device
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo

SIZES = {
    "one row": (1, 200, 90),
    "one column": (117, 1, 128),
    "rows": (3, 140, 65),
    "columns": (100, 8, 32),
    "one number": (1, 1, 8300),
    "one number of few": (1, 1, 300),
    "deep": (2, 9, 1100),
    "shallow": (5, 700, 3),
}
"""Rows, columns, depth."""


@pytest.mark.parametrize("deep", LAYOUTS)
@pytest.mark.parametrize(("type_", "result"), [("f32", "f32"), ("bf16", "bf16"), ("s8", "s32")])
@pytest.mark.parametrize("name", SIZES)
def test_slim_products(name: str, type_: str, result: str, deep: tuple[int, int]) -> None:
    tolerance = {"f32": 1e-5, "bf16": 1e-2, "s8": 0.0}[type_]
    program = check(laid_out(type_, result, deep, SIZES[name]), tolerance)
    assert templates(program) == ["slim"]


@pytest.mark.parametrize("type_", ["f64", "s64", "u32"])
def test_slim_products_of_other_types(type_: str) -> None:
    assert templates(check(laid_out(type_, type_, (1, 0), (2, 300, 77)), 1e-12)) == ["slim"]


HEADS = """
  q = bf16[6,1,64] parameter(0)
  k = bf16[6,200,64] parameter(1)
  b = f32[6,1,200] parameter(2)
  s = f32[6,1,200] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={2}
  ROOT r = f32[6,1,200] add(s, b)
"""
VALUES = """
  p = f32[6,1,200] parameter(0)
  v = bf16[6,200,64] parameter(1)
  e = f32[6,1,200] exponential(p)
  c = bf16[6,1,200] convert(e)
  ROOT s = f32[6,1,64] dot(c, v), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1}
"""


WINDOWS = """
  x = f32[2,50,12] parameter(0)
  w = f32[5,12,4] parameter(1)
  ROOT c = f32[2,50,4] convolution(x, w), window={size=5 pad=2_2}, dim_labels=b0f_0io->b0f
"""
GRADIENT = """
  x = f32[8,120,1] parameter(0)
  g = f32[8,120,16] parameter(1)
  ROOT c = f32[7,1,16] convolution(x, g), window={size=120 pad=3_3}, dim_labels=f0b_i0o->0bf
"""


@pytest.mark.parametrize("entry", [WINDOWS, GRADIENT])
def test_convolutions_of_few_features(entry: str) -> None:
    assert templates(check(entry)) == ["slim"]


@pytest.mark.parametrize("entry", [HEADS, VALUES])
def test_one_row_of_each_head(entry: str) -> None:
    assert "slim" in templates(check(entry, 1e-2))


def test_small_products_stay_with_points() -> None:
    assert templates(program_of(laid_out("f32", "f32", (1, 0), (2, 8, 16)))) == ["points"]


def test_equal_bytes_from_call_to_call() -> None:
    entry = laid_out("f32", "f32", (1, 0), (1, 300, 900))
    program = program_of(entry)
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(entry)))), 0)
    one, other = [on_emulated_device(program)(*arguments) for _ in range(2)]
    assert one.tobytes() == other.tobytes()


def test_an_operand_is_read_by_whole_lines() -> None:
    """16 bytes at once of what a thread reads: 4 numbers side by side, along the columns."""
    program = program_of(laid_out("f32", "f32", (1, 0), (1, 4096, 512)))
    (text,) = program.texts
    assert len(re.findall(r"load <4 x i32>, ptr ", text)) == 4


@pytest.mark.parametrize("layout", [(1, 0), (0, 0)])
@pytest.mark.parametrize(("type_", "result"), [("bf16", "f32"), ("s8", "s32"), ("f64", "f64")])
def test_all_rows_of_wide_pieces_fit_in_shared_memory(
    type_: str, result: str, layout: tuple[int, int]
) -> None:
    """Sums of 8 rows by 16 bytes of the wide operand: more than threads can exchange at once."""
    program = check(laid_out(type_, result, layout, (8, 128, 256)), 1e-3)
    assert templates(program) == ["slim"]
    sizes = [nbytes for text in program.texts for _, nbytes in shared_bytes(text)]
    assert 0 < max(sizes) <= 1 << 15
