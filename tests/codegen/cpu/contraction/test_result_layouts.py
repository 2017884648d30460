"""Dots of scheduled modules whose results lie in memory in any order of dimensions."""

from itertools import permutations

import numpy as np
import pytest
from tests.codegen.cpu.library.running import check

PLAIN = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHED = (
    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
)
FORMS = [((5, 7), (7, 9), (5, 9), PLAIN), ((2, 5, 7), (2, 7, 9), (2, 5, 9), BATCHED)]
CASES = [(*form, order) for form in FORMS for order in permutations(range(len(form[2])))]


@pytest.mark.parametrize(("left", "right", "made", "numbers", "order"), CASES)
@pytest.mark.parametrize("type_", ["f32", "s32"])
def test_a_result_lies_as_its_shape_says(left, right, made, numbers, order, type_) -> None:
    sizes = [",".join(map(str, x)) for x in (left, right, made, order)]
    text = f"""HloModule m, is_scheduled=true
ENTRY e {{
  a = {type_}[{sizes[0]}] parameter(0)
  b = {type_}[{sizes[1]}] parameter(1)
  ROOT d = {type_}[{sizes[2]}]{{{sizes[3]}}} dot(a, b), {numbers}
}}
"""
    draw = np.random.default_rng(0)
    dtype = np.float32 if type_ == "f32" else np.int32
    check(text, [draw.integers(-9, 9, x).astype(dtype) for x in (left, right)])
