"""Asynchronous starts that tell of other operands than they have: read, then refused."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError
from lowtide.verifier import verify

TEXT = """HloModule m

c {{
  q = f32[8] parameter(0)
  ROOT n = f32[8] negate(q)
}}

ENTRY e {{
  p = f32[8] parameter(0)
  s = ({told}, f32[8], u32[]) {start}
  ROOT d = f32[8] {start_name}-done(s)
}}
"""


@pytest.mark.parametrize(
    ("told", "start"),
    [
        ("(f32[8])", "async-start(), calls=c"),
        ("(f32[8])", "async-start(p,p), calls=c"),
        ("()", "async-start(p), calls=c"),
        ("(f32[8],f32[8])", "async-start(p), calls=c"),
        ("()", "negate-start(p)"),
        ("(f32[8],f32[8])", "negate-start(p)"),
        ("(f32[8])", "negate-start(p,p)"),
    ],
)
def test_other_operands_are_read_and_refused(told: str, start: str) -> None:
    name = start.partition("-start")[0]
    module = parse_hlo(TEXT.format(told=told, start=start, start_name=name))
    assert str(parse_hlo(str(module))) == str(module)
    with pytest.raises(InvalidModuleError, match="element 0 must be the operands"):
        verify(module)
