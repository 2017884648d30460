"""What is merged, and what only looks equal."""

import lowtide
from lowtide.testing.check_pass import check_pass
from lowtide.transforms.common_subexpressions import merge_common_subexpressions


def test_constants_that_are_left_out_of_the_text_are_not_known_to_be_equal() -> None:
    module = lowtide.parse_hlo("""
HloModule m
ENTRY main {
  a = f32[64] constant({...})
  b = f32[64] constant({...})
  ROOT difference = f32[64] subtract(a, b)
}
""")
    assert merge_common_subexpressions(module) == 0


def test_operands_of_sums_may_stand_in_any_order_those_of_differences_not() -> None:
    text = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] OPCODE(x, y)
  b = f32[4] OPCODE(y, x)
  ROOT t = (f32[4], f32[4]) tuple(a, b)
}
"""
    check_pass(merge_common_subexpressions, text.replace("OPCODE", "maximum"), evaluate=True)
    check_pass(merge_common_subexpressions, text.replace("OPCODE", "subtract"), changed=False)


def test_barriers_keep_what_is_computed_again() -> None:
    text = """
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  first = f32[4] sine(x)
  kept = f32[4] opt-barrier(x)
  again = f32[4] sine(kept)
  ROOT t = (f32[4], f32[4]) tuple(first, again)
}
"""
    check_pass(merge_common_subexpressions, text, changed=False)
