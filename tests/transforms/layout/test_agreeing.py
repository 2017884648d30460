"""Loops and branches whose computations have other layouts than they: whichever it is."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.transforms.layout.handed_on import obey_layouts
from lowtide.verifier import verify

ROWS, COLUMNS = "f32[2,3]{1,0}", "f32[2,3]{0,1}"
BRANCHES = """HloModule m, is_scheduled=true
one { p = f32[2,3]{1,0} parameter(0)
  ROOT a = @0 negate(p) }
two { q = f32[2,3]{1,0} parameter(0)
  ROOT b = @1 sine(q) }
ENTRY e { i = s32[] parameter(0)
  x = f32[2,3]{1,0} parameter(1)
  ROOT c = f32[2,3]{1,0} conditional(i, x, x), branch_computations={one, two} }
"""
LOOP = """HloModule m, is_scheduled=true
more { p = @0 parameter(0)
  ROOT n = pred[] constant(false) }
body { q = @1 parameter(0)
  ROOT b = @2 sine(q) }
ENTRY e { x = f32[2,3]{1,0} parameter(0)
  ROOT w = f32[2,3]{1,0} while(x), condition=more, body=body }
"""


def with_one_turned(text: str, count: int, turned: int) -> str:
    for number in range(count):
        text = text.replace(f"@{number}", COLUMNS if number == turned else ROWS)
    return text


@pytest.mark.parametrize("turned", [0, 1])
def test_each_branch_returns_the_layout_of_the_result(turned) -> None:
    module = parse_hlo(with_one_turned(BRANCHES, 2, turned))
    assert obey_layouts(module)
    verify(module)
    (choice,) = (x for x in module.entry.instructions.values() if x.called_computations)
    assert {x.root.shape for x in choice.called_computations} == {choice.shape}


@pytest.mark.parametrize("turned", [0, 1, 2])
def test_a_loop_has_one_layout(turned) -> None:
    module = parse_hlo(with_one_turned(LOOP, 3, turned))
    assert obey_layouts(module)
    verify(module)
    (loop,) = (x for x in module.entry.instructions.values() if x.called_computations)
    condition, body = loop.called_computations
    shapes = [condition.parameters[0].shape, body.parameters[0].shape, body.root.shape]
    assert {*shapes, loop.operands[0].shape} == {loop.shape}
