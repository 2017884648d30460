"""What has to run before or after another instruction is in no kernel with others."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.verifier import verify

TEXT = """HloModule m
ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] exponential(x)
  b = f32[64] negate(a)
  c = f32[64] sine(x)@
  d = f32[64] negate(c)
  ROOT t = (f32[64], f32[64]) tuple(b, d)
}
"""


@pytest.mark.parametrize(
    ("edge", "alone"), [("", set()), (", control-predecessors={a}", {"a", "c"})]
)
def test_both_ends_of_a_control_edge_stay(edge, alone) -> None:
    module = parse_hlo(TEXT.replace("@", edge))
    fuse_by_priority(module)
    verify(module)
    entry = module.entry.instructions
    assert {"a", "c"} & {*entry} == alone
    assert not alone or [*entry["c"].control_predecessors] == [entry["a"]]
