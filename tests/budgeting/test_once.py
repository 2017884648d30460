"""What must not run a second time, wherever it stands."""

import pytest

from lowtide.budgeting.once import runs_once
from lowtide.frontend.hlo_text import parse_hlo

SOURCE = """HloModule m
plain {
  p = f32[4] parameter(0)
  ROOT r = f32[4] negate(p)
}
sends {
  p = f32[4] parameter(0)
  c = f32[4] custom-call(p), custom_call_target="t", custom_call_has_side_effect=true
  ROOT r = f32[4] negate(c)
}
python {
  p = f32[4] parameter(0)
  c = f32[4] custom-call(p), custom_call_target="lowtide_python_function"
  ROOT r = f32[4] negate(c)
}
calls {
  p = f32[4] parameter(0)
  ROOT r = f32[4] call(p), to_apply=sends
}
state {
  s = (f32[4]) parameter(0)
  p = f32[4] get-tuple-element(s), index=0
  c = f32[4] call(p), to_apply=@
  ROOT t = (f32[4]) tuple(c)
}
stop {
  s = (f32[4]) parameter(0)
  ROOT r = pred[] constant(false)
}
ENTRY e {
  p = f32[4] parameter(0)
  k = token[] after-all()
  s = (f32[4]) tuple(p)
  x = #
  ROOT r = () tuple()
}
"""

LOOP = "(f32[4]) while(s), condition=stop, body=state"
CASES = {
    "an operation": ("f32[4] negate(p)", "plain", False),
    "a parameter": ("f32[4] parameter(1)", "plain", True),
    "a call": ("f32[4] call(p), to_apply=plain", "plain", True),
    "a library call": ('f32[4] custom-call(p), custom_call_target="t"', "plain", False),
    "a library call with an effect": (
        'f32[4] custom-call(p), custom_call_target="t", custom_call_has_side_effect=true',
        "plain",
        True,
    ),
    "a Python function": (
        'f32[4] custom-call(p), custom_call_target="lowtide_python_function"',
        "plain",
        True,
    ),
    "a loop around a Python function": (LOOP, "python", True),
    "what makes a token": ("token[] after-all(k)", "plain", True),
    "what makes a token beside a value": (
        '(f32[4], token[]) custom-call(p, k), custom_call_target="t"',
        "plain",
        True,
    ),
    "random numbers": ("f32[4] rng(p, p), distribution=rng_uniform", "plain", True),
    "the start of a copy": ("(f32[4], f32[4], u32[]) copy-start(p)", "plain", True),
    "a sum over devices": ("f32[4] all-reduce(p), to_apply=plain", "plain", True),
    "a loop": (LOOP, "plain", False),
    "a loop around an effect": (LOOP, "sends", True),
    "a loop around a call of an effect": (LOOP, "calls", True),
}


@pytest.mark.parametrize("name", CASES)
def test_what_runs_once(name) -> None:
    right_side, called, expected = CASES[name]
    text = SOURCE.replace("#", right_side).replace("@", called)
    module = parse_hlo(text)
    (found,) = (x for x in module.entry.instructions.values() if x.name == "x")
    assert runs_once(found, {}) == expected
