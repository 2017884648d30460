"""Ragged products natively and by the evaluator."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

RAGGED = """
HloModule m

ENTRY main {{
  a = f32[{0}] parameter(0)
  b = f32[{1}] parameter(1)
  g = s32[3] parameter(2)
  ROOT r = f32[{2}] ragged-dot(a, b, g), {3}
}}
"""

FORMS = [
    (
        (7, 4),
        (3, 4, 20),
        (7, 20),
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    (
        (2, 7),
        (7, 5),
        (3, 2, 5),
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "lhs_ragged_dims={1}, rhs_group_dims={}",
    ),
    (
        (7, 2, 3),
        (7, 3, 4),
        (7, 2, 4),
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={}",
    ),
]

SIZES = [[2, 0, 4], [7, 0, 0], [1, 1, 1], [-3, 5, 1], [5, -4, 3], [-1, -2, 9], [9, -3, 8]]
"""Sizes of groups, some of which end ahead of where they begin, or behind the last row."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS, ids=["free", "contracted", "batch"])
def test_ragged_products(form, target):
    *shapes, attributes = form
    text = RAGGED.format(*[",".join(map(str, x)) for x in shapes], attributes)
    random = np.random.default_rng(3)
    inputs = [random.integers(-4, 5, x).astype(np.float32) for x in shapes[:2]]
    for sizes in SIZES:
        check(text, [*inputs, np.array(sizes, np.int32)], target)
