"""Instructions that agree in all but what they call are checked one by one."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.errors import InvalidModuleError
from lowtide.verifier import verify

TEXT = """HloModule m
right {
  p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p)
}
wrong {
  q = f32[@] parameter(0)
  z = f32[] constant(0)
  ROOT b = f32[4] broadcast(z), dimensions={}
}
ENTRY main {
  x = f32[4] parameter(0)
  first = f32[4] call(x), to_apply=right
  ROOT second = f32[4] call(first), to_apply=wrong
}
"""


def test_a_call_of_another_type_than_the_one_before_it() -> None:
    verify(parse_hlo(TEXT.replace("@", "4")))
    with pytest.raises(InvalidModuleError, match="second"):
        verify(parse_hlo(TEXT.replace("@", "5")))
