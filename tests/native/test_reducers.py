"""Reducers that hold more than element-wise operations: loops, tables, calls."""

from __future__ import annotations

from typing import Final

import pytest
from tests.native.comparing import compiled

from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify

CALLED: Final = """
most { ma = s32[] parameter(0)
  mb = s32[] parameter(1)
  ROOT mo = s32[] maximum(ma, mb) }
ge { ga = s32[] parameter(0)
  gb = s32[] parameter(1)
  ROOT go = pred[] compare(ga, gb), direction=GE }
"""

BODIES: Final = {
    "dot": """x = s32[2] broadcast(a), dimensions={}
  k = s32[2] constant({3, -2})
  d = s32[] dot(x, k), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = s32[] add(d, b)""",
    "reduce": """x = s32[3] broadcast(a), dimensions={}
  k = s32[] constant(-99999)
  d = s32[] reduce(x, k), dimensions={0}, to_apply=most
  ROOT r = s32[] add(d, b)""",
    "reduce-window": """x = s32[3] broadcast(a), dimensions={}
  k = s32[] constant(-99999)
  d = s32[2] reduce-window(x, k), window={size=2}, to_apply=most
  u = s32[1] slice(d), slice={[1:2]}
  v = s32[] reshape(u)
  ROOT r = s32[] add(v, b)""",
    "convolution": """x = s32[1,1,2] broadcast(a), dimensions={}
  y = s32[1,1,2] constant({{{3, -2}}})
  c = s32[1,1,1] convolution(x, y), window={size=2}, dim_labels=bf0_io0->bf0
  v = s32[] reshape(c)
  ROOT r = s32[] add(v, b)""",
    "gather": """k = s32[5] constant({0, 1, 2, 3, 4})
  i = s32[1] reshape(a)
  g = s32[] gather(k, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=0, slice_sizes={1}
  ROOT r = s32[] maximum(g, b)""",
    "call": "ROOT r = s32[] call(a, b), to_apply=most",
}
"""Each is an associative operation of a and b, so that any order will do."""

USES: Final = {
    "rows": """p = s32[3,40] parameter(0)
  z = s32[] constant(0)
  ROOT o = s32[3] reduce(p, z), dimensions={1}, to_apply=red""",
    "columns": """p = s32[5,40] parameter(0)
  z = s32[] constant(0)
  ROOT o = s32[40] reduce(p, z), dimensions={0}, to_apply=red""",
    "windows": """p = s32[5,40] parameter(0)
  z = s32[] constant(0)
  ROOT o = s32[5,38] reduce-window(p, z), window={size=1x3}, to_apply=red""",
    "scatter": """p = s32[5,4] parameter(0)
  i = s32[3,1] parameter(1)
  u = s32[3,4] parameter(2)
  ROOT o = s32[5,4] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=red""",
    "select-and-scatter": """p = s32[4,8] parameter(0)
  s = s32[2,4] parameter(1)
  z = s32[] constant(0)
  ROOT o = s32[4,8] select-and-scatter(p, s, z), window={size=2x2 stride=2x2}, select=ge, \
scatter=red""",
    "map": """p = s32[5,40] parameter(0)
  q = s32[5,40] parameter(1)
  ROOT o = s32[5,40] map(p, q), dimensions={0,1}, to_apply=red""",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("body", BODIES)
def test_reducer(body: str, use: str) -> None:
    reducer = f"red {{\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  {BODIES[body]}\n}}\n"
    text = f"HloModule m, is_scheduled=true\n{CALLED}{reducer}ENTRY e {{\n  {USES[use]}\n}}\n"
    module = parse_hlo(text)
    verify(module)
    arguments = seeded_arguments(module, 3)
    expected = evaluate(module, arguments)
    assert_values_close(compiled(text)(*arguments), expected, module.entry.root.shape)
