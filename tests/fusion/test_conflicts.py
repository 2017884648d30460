"""Fusions that would overwrite what they still read, where the module itself asks for it."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.conflicts import overwrites_what_it_reads

TEXT = """HloModule m, is_scheduled=true
f { p = f32[4] parameter(0)
  a = f32[4] negate(p)
  b = f32[4] @
  ROOT t = (f32[4], f32[4]) tuple(a, b) }
ENTRY e { x = f32[4] parameter(0)
  c = f32[4] sine(x)
  ROOT z = (f32[4], f32[4]) fusion(c), kind=kLoop, calls=f,
    output_to_operand_aliasing={{0}: (0, {})} }
"""


@pytest.mark.parametrize(
    ("other", "has_conflict"), [("exponential(p)", False), ("reverse(p), dimensions={0}", True)]
)
def test_another_result_reads_what_the_first_overwrites(other, has_conflict) -> None:
    fusion = parse_hlo(TEXT.replace("@", other)).entry.root
    assert overwrites_what_it_reads(fusion) == has_conflict
