"""Which leaves of a loop's state its body only adds to: nothing else may read them."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.spmd.loop_states import accumulated

TEXT = """HloModule m
condition {
  t = (f32[], f32[]) parameter(0)
  a = f32[] get-tuple-element(t), index=0
  b = f32[] get-tuple-element(t), index=1
  n = f32[] constant(9)
  ROOT c = pred[] compare(READ, n), direction=LT
}
body {
  u = (f32[], f32[]) parameter(0)
  x = f32[] get-tuple-element(u), index=0
  y = f32[] get-tuple-element(u), index=1
  one = f32[] constant(1)
  i = f32[] add(x, one)
  s = f32[] add(y, i)
  ROOT r = (f32[], f32[]) tuple(i, s)
}
ENTRY e {
  p = (f32[], f32[]) parameter(0)
  ROOT w = (f32[], f32[]) while(p), condition=condition, body=body
}
"""


@pytest.mark.parametrize(("read", "places"), [("a", {1}), ("b", set())])
def test_a_sum_that_the_condition_reads_is_none(read: str, places: set[int]) -> None:
    text = TEXT.replace("READ", read).replace(f"  {'b' if read == 'a' else 'a'} = f32[] get", "  X")
    lines = [x for x in text.splitlines() if not x.startswith("  X")]
    loop = parse_hlo("\n".join(lines)).entry.root
    assert set(accumulated(loop)) == places
