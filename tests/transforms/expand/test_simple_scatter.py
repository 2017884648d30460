"""Scatters of one slice or of one element a row: the same values, whatever the indices are."""

import numpy as np
import pytest
from tests.transforms.expand.test_expanders import expanded, opcodes

from lowtide.evaluator import evaluate
from lowtide.passes.registry import passes
from lowtide.testing.check_pass import assert_same_values, seeded_arguments
from lowtide.testing.check_rule import leaves, module_of

SET = "set { a = f32[] parameter(0)\n ROOT b = f32[] parameter(1) }"
ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"

SLICES = {
    "a constant": """x = f32[6,5] parameter(0)
      u = f32[5] parameter(1)
      i = s32[1] constant({4})
      y = f32[6,5] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=REDUCER""",
    "a clamped vector": """x = f32[6,5] parameter(0)
      u = f32[1,2,1,3] parameter(1)
      j = s32[1,1,2] parameter(2)
      low = s32[] constant(0)
      lows = s32[1,1,2] broadcast(low), dimensions={}
      high = s32[1,1,2] constant({{{2, 4}}})
      i = s32[1,1,2] clamp(lows, j, high)
      y = f32[6,5] scatter(x, i, u), update_window_dims={1,3}, inserted_window_dims={},
      scatter_dims_to_operand_dims={1,0}, index_vector_dim=2, to_apply=REDUCER""",
    "nothing to choose": """x = f32[3] parameter(0)
      u = f32[3] parameter(1)
      i = s32[0] constant({})
      y = f32[3] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={},
      scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=REDUCER""",
}
ROWS = {
    "one for each row": """i = s32[4,1] parameter(0)
      u = f32[4] parameter(1)
      v = f32[] parameter(2)
      x = f32[4,3] broadcast(v), dimensions={}
      y = f32[4,3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={1}, input_batching_dims={0},
      scatter_indices_batching_dims={0}, index_vector_dim=1, to_apply=REDUCER""",
    "two rows of indices, a window": """i = s8[3,1,2,2] parameter(0)
      u = f32[3,5,1,2,1] parameter(1)
      v = f32[] parameter(2)
      x = f32[2,4,3,5,2] broadcast(v), dimensions={}
      y = f32[2,4,3,5,2] scatter(x, i, u), update_window_dims={1,4}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={4,1}, input_batching_dims={0,2},
      scatter_indices_batching_dims={2,0}, index_vector_dim=3, to_apply=REDUCER""",
    "one of few": """i = u8[1] parameter(0)
      u = f32[] parameter(1)
      v = f32[] parameter(2)
      x = f32[3] broadcast(v), dimensions={}
      y = f32[3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=REDUCER""",
    "more places than the index can name": """i = u8[2,1] parameter(0)
      u = f32[2] parameter(1)
      v = f32[] parameter(2)
      x = f32[2,300] broadcast(v), dimensions={}
      y = f32[2,300] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={1}, input_batching_dims={0},
      scatter_indices_batching_dims={0}, index_vector_dim=1, to_apply=REDUCER""",
}


def one_line(body: str, reducer: str) -> str:
    return body.replace(",\n      ", ", ").replace("REDUCER", reducer)


@pytest.mark.parametrize("body", [*SLICES.values(), *ROWS.values()], ids=[*SLICES, *ROWS])
@pytest.mark.parametrize("reducer", ["set", "add"])
def test_values_are_the_same(body: str, reducer: str) -> None:
    before, after = expanded("expand-simple-scatter", one_line(body, reducer), f"{SET}\n{ADD}")
    assert "scatter" not in opcodes(after)
    assert_same_values(before, after, seeds=5)
    indices = [p for p in before.entry.parameters if p.shape.element_type.is_integer]
    for number in (-1, 0, 2, 3, 4, 100) if indices else ():
        given = seeded_arguments(before, 0)
        place = before.entry.parameters.index(indices[0])
        given[place] = np.full_like(given[place], number % 256 if "u8" in body else number)
        pair = [np.asarray(leaves(evaluate(x, given))[0]) for x in (before, after)]
        np.testing.assert_array_equal(*pair)


def test_indices_that_may_be_out_of_bounds_stay() -> None:
    for old, new in (
        ("constant({4})", "parameter(2)"),
        ("constant({4})", "constant({6})"),
        ("constant({4})", "constant({-1})"),
    ):
        text = one_line(SLICES["a constant"], "set").replace(old, new)
        assert passes()["expand-simple-scatter"].run(module_of(text, SET)) == 0


def test_two_elements_a_row_stay() -> None:
    text = one_line(ROWS["one for each row"], "add")
    for old, new in (("s32[4,1]", "s32[4,2,1]"), ("f32[4] p", "f32[4,2] p"), ("m=1", "m=2")):
        text = text.replace(old, new)
    assert passes()["expand-simple-scatter"].run(module_of(text, ADD)) == 0


def test_rows_of_an_argument_stay() -> None:
    text = one_line(ROWS["one for each row"], "add")
    text = text.replace("broadcast(v), dimensions={}", "parameter(3)")
    assert passes()["expand-simple-scatter"].run(module_of(text, ADD)) == 0
