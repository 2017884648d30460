"""From live ranges to slices: what happens when the user ends the packing."""

from dataclasses import replace

import pytest

from lowtide import compiler
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.planning.offsets.portfolio import portfolio
from lowtide.search.effort import StopReason

TEXT = """
HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] sine(x)
}
"""


def test_ctrl_c_while_buffers_are_packed_ends_the_plan(monkeypatch):
    def interrupted(problem, options):
        return replace(portfolio(problem, options), stopped=StopReason.INTERRUPT)

    monkeypatch.setattr("lowtide.buffers.packing.packed_once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiler.plan(parse_hlo(TEXT), compiler.PlanOptions("input"))
