"""Which operand values a result may overwrite where one value is read in several places."""

import pytest

from lowtide.analysis.dataflow import dataflow
from lowtide.frontend.hlo_text import parse_hlo


def shares(text: str) -> list[tuple[str, str]]:
    """(value read, value made) of the root of a module, by name of what makes them."""
    entry = parse_hlo(text).entry
    flow = dataflow(entry)[entry]
    names = [flow.nodes[node].name for node in flow.value_node]
    return [(names[read], names[made]) for read, made in flow.shares[flow.number[entry.root]]]


CASES = {
    "once": ("negate(p)", [("p", "r")]),
    "twice in one shape": ("add(p, p)", [("p", "r"), ("p", "r")]),
    "twice, once as another shape": ("select(q, p, p)", [("p", "r"), ("p", "r")]),
    "an update with itself": ("dynamic-update-slice(p, p, i)", []),
    "an update with a slice of another": ("dynamic-update-slice(p, o, i)", [("p", "r")]),
    "through another name": ("dynamic-update-slice(p, b, i)", []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_may_be_overwritten(name) -> None:
    right_side, expected = CASES[name]
    text = f"""HloModule m
ENTRY e {{
  p = f32[4] parameter(0)
  o = f32[4] parameter(1)
  i = s32[] parameter(2)
  q = pred[4] parameter(3)
  b = f32[4] bitcast(p)
  ROOT r = f32[4] {right_side}
}}
"""
    assert shares(text) == expected


def test_a_value_under_two_shapes_is_not_overwritten() -> None:
    """A clamp reads its bounds for every element: a scalar that is also the array's only one."""
    text = """HloModule m
ENTRY e {
  p = f32[1] parameter(0)
  s = f32[] bitcast(p)
  ROOT r = f32[1] clamp(s, p, s)
}
"""
    assert shares(text) == []
