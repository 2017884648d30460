"""Indices and tables that are known before a program runs, and those that are not."""

import numpy as np
import pytest

from lowtide.ir import Opcode
from lowtide.testing.check_pass import check_pass
from lowtide.transforms.counted_values import MOST_INDICES, MOST_OF_TABLE, fold_counted_values

HALVES = """
  i = s32[{0}] iota(), iota_dimension=0
  one = s32[] {1}
  ones = s32[{0}] broadcast(one), dimensions={{}}
  half = s32[{0}] shift-right-logical(i, ones)
"""
ROWS = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,5}"
)
INTO = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=sum"
)
SUM = "sum {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] add(p, q)\n}\n"


def _module(halves: str, taking: str) -> str:
    parameters = "x = f32[3000,5] parameter(0)\n u = f32[4,5] parameter(1)\n s = s32[] parameter(2)"
    return f"HloModule m\n{SUM}ENTRY e {{\n {parameters}\n{halves}\n ROOT y = {taking}\n}}"


def _is_folded(module) -> bool:
    return bool(fold_counted_values(module))


def _indices(module, opcode: Opcode):
    (found,) = [x for x in module.entry.instructions.values() if x.opcode is opcode]
    return found.operands[1]


@pytest.mark.parametrize(
    ("opcode", "taking"),
    [
        (Opcode.GATHER, f"f32[4,5] gather(x, half), {ROWS}"),
        (Opcode.SCATTER, f"f32[3000,5] scatter(x, half, u), {INTO}"),
    ],
)
def test_indices_of_iotas_are_computed(opcode, taking):
    text = _module(HALVES.format(4, "constant(1)"), taking)
    module = check_pass(_is_folded, text, evaluate=True)
    made = _indices(module, opcode)
    assert made.opcode is Opcode.CONSTANT
    assert made.attributes.literal.array.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "text",
    [
        _module(HALVES.format(4, "copy(s)"), f"f32[4,5] gather(x, half), {ROWS}"),
        _module(
            HALVES.format(MOST_INDICES + 1, "constant(1)"),
            f"f32[{MOST_INDICES + 1},5] gather(x, half), {ROWS}",
        ),
        _module("i = s32[4] iota(), iota_dimension=0", f"f32[4,5] gather(x, i), {ROWS}"),
    ],
    ids=["an argument", "many", "an iota"],
)
def test_other_indices_stay(text):
    module = check_pass(_is_folded, text, changed=False)
    assert _indices(module, Opcode.GATHER).opcode is not Opcode.CONSTANT


def _positions(count: int, of: str) -> str:
    return f"""HloModule m
ENTRY e {{
  x = f32[3,{count}] parameter(0)
  y = f32[{count}] parameter(1)
  i = f32[{count}] iota(), iota_dimension=0
  angle = f32[{count}] multiply(i, {of})
  sine = f32[{count}] sine(angle)
  sines = f32[3,{count}] broadcast(sine), dimensions={{1}}
  ROOT z = f32[3,{count}] multiply(x, sines)
}}"""


def test_tables_of_functions_of_iotas_are_computed():
    module = check_pass(_is_folded, _positions(5, "i"), evaluate=True)
    opcodes = {x.opcode for x in module.entry.instructions.values()}
    assert Opcode.BROADCAST in opcodes
    assert not opcodes & {Opcode.SINE, Opcode.IOTA}
    (table,) = [x for x in module.entry.instructions.values() if x.opcode is Opcode.CONSTANT]
    np.testing.assert_allclose(
        table.attributes.literal.array, np.sin(np.arange(5.0) ** 2), rtol=1e-6
    )


def test_a_table_that_is_the_result_is_computed():
    text = (
        "HloModule m\nENTRY e {\n i = f32[4] iota(), iota_dimension=0\n ROOT s = f32[4] log(i)\n}"
    )
    module = check_pass(_is_folded, text, evaluate=True)
    assert module.entry.root.opcode is Opcode.CONSTANT


@pytest.mark.parametrize(
    "text",
    [
        _positions(5, "y"),
        _positions(MOST_OF_TABLE + 1, "i"),
        _positions(5, "i").replace("sine(angle)", "negate(angle)"),
    ],
    ids=["an argument", "many", "cheap"],
)
def test_other_tables_stay(text):
    module = check_pass(_is_folded, text, changed=False)
    assert Opcode.IOTA in {x.opcode for x in module.entry.instructions.values()}
