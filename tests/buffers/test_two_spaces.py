"""Donated arguments in several memory spaces: each output lies in its own one."""

from lowtide.checking import check_plan
from lowtide.compiler import PlanOptions, plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.buffer import AllocationKind

TEXT = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY main {
  p = f32[16]{0:S(1)} parameter(0)
  q = f32[32]{0} parameter(1)
  m = f32[16]{0:S(1)} negate(p)
  n = f32[32]{0} exponential(q)
  r = f32[32]{0} reverse(n), dimensions={0}
  ROOT t = (f32[16]{0:S(1)}, f32[32]{0}) tuple(m, r)
}
"""


def test_outputs_lie_in_the_arguments_of_their_spaces() -> None:
    made = plan(parse_hlo(TEXT), PlanOptions("input"))
    assert check_plan(made.module, made.assignment) == ()
    places = [made.assignment.allocations[x.allocation] for x in made.assignment.outputs]
    assert [x.parameter for x in places] == [(0, ()), (1, ())]
    assert [x.colour for x in places] == [1, 0]


def test_each_space_has_an_arena() -> None:
    """Without donations, and with values that nobody returns."""
    text = TEXT[: TEXT.index(", input_output_alias")] + TEXT[TEXT.index("\nENTRY") :]
    text = text.replace("negate(p)", "negate(u)").replace(
        "  m = ",
        "  v = f32[16]{0:S(1)} sine(p)\n  u = f32[16]{0:S(1)} reverse(v), dimensions={0}\n  m = ",
    )
    made = plan(parse_hlo(text), PlanOptions("input"))
    assert check_plan(made.module, made.assignment) == ()
    found = [x for x in made.assignment.allocations if x.kind is AllocationKind.ARENA]
    arenas = {x.colour: x.nbytes for x in found}
    assert arenas == {0: 256, 1: 128}
