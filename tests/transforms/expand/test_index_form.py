"""Gather and scatter in one form: the same elements, with index vectors last and no batching."""

import pytest
from tests.transforms.expand.test_expanders import expanded

from lowtide.evaluator import evaluate
from lowtide.ir.attributes import Gather, Scatter
from lowtide.testing.check_pass import seeded_arguments
from lowtide.testing.check_rule import bits, leaves

GATHERS = {
    "implicit vectors": """x = f32[6,5] parameter(0)
      i = s32[4] parameter(1)
      y = f32[4,5] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=1, slice_sizes={1,5}""",
    "vectors first": """x = f32[6,5] parameter(0)
      i = s32[2,4] parameter(1)
      y = f32[2,4] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1,0},
      index_vector_dim=0, slice_sizes={2,1}""",
    "batching": """x = f32[3,6,5] parameter(0)
      i = s32[4,1,3] parameter(1)
      y = f32[4,3,2] gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1},
      operand_batching_dims={0}, start_indices_batching_dims={2}, index_vector_dim=1,
      slice_sizes={1,1,2}""",
    "narrow batching": """x = f32[2,6,3] parameter(0)
      i = u8[3,2] parameter(1)
      y = f32[3,2] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1},
      operand_batching_dims={0,2}, start_indices_batching_dims={1,0}, index_vector_dim=2,
      slice_sizes={1,1,1}""",
}
SCATTERS = {
    "implicit vectors": """x = s32[6,5] parameter(0)
      i = s32[4] parameter(1)
      u = s32[4,5] parameter(2)
      y = s32[6,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=iadd""",
    "vectors first": """x = s32[6,5] parameter(0)
      i = s32[2,4] parameter(1)
      u = s32[4,2] parameter(2)
      y = s32[6,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=iadd""",
    "batching": """x = s32[3,6,5] parameter(0)
      i = s32[4,1,3] parameter(1)
      u = s32[4,3,2] parameter(2)
      y = s32[3,6,5] scatter(x, i, u), update_window_dims={2}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={1}, input_batching_dims={0},
      scatter_indices_batching_dims={2}, index_vector_dim=1, to_apply=iadd""",
}


@pytest.mark.parametrize("body", [*GATHERS.values(), *SCATTERS.values()])
def test_indices_in_one_form(body: str) -> None:
    lines = body.split(" parameter")
    text = " parameter".join([*lines[:-1], lines[-1].replace(",\n      ", ", ")])
    before, after = expanded("normalize-indices", text)
    numbers = after.entry.root.attributes
    assert isinstance(numbers, Gather | Scatter)
    indices = after.entry.root.operands[1].shape
    assert numbers.index_vector_dim == indices.rank - 1
    batching = (
        numbers.operand_batching_dims
        if isinstance(numbers, Gather)
        else numbers.input_batching_dims
    )
    assert not batching
    for seed in range(5):
        arguments = seeded_arguments(before, seed)
        (expected,), (got,) = [leaves(evaluate(x, arguments)) for x in (before, after)]
        assert bits(expected) == bits(got)
