"""Loops that only pass on what is read of them: which go, and what stays in a schedule."""

import numpy as np
import pytest
from tests.ways_to_run import run_native

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.transforms.control_flow.unread_loops import remove_unread_loops

STATE = "(f32[4], f32[4], pred[])"


def _loop_of(number):
    return f"""
again.{number} {{
  c = {STATE} parameter(0)
  ROOT more = pred[] get-tuple-element(c), index=2
}}
step.{number} {{
  b = {STATE} parameter(0)
  x = f32[4] get-tuple-element(b), index=0
  w = f32[4] get-tuple-element(b), index=1
  go = pred[] get-tuple-element(b), index=2
  y = f32[4] sine(x)
  ROOT r = {STATE} tuple(y, w, go)
}}
"""


AROUND = f"""
around {{
  a = {STATE} parameter(0)
  ROOT inner = {STATE} while(a), condition=again.2, body=step.2
}}
"""


def _text(body):
    """A scheduled module, with the computations that its body calls."""
    needed = AROUND if "around" in body else ""
    for number in range(3):
        if f"again.{number}" in needed + body:
            needed = _loop_of(number) + needed
    return f"HloModule m, is_scheduled=true\n{needed}\nENTRY main {{\n{body}\n}}\n"


START = f"x = f32[4] parameter(0)\ngo = pred[] parameter(1)\nstart = {STATE} tuple(x, x, go)\n"
SIMPLE = f"loop = {STATE} while(start), condition=again.0, body=step.0\n"
NESTED = f"loop = {STATE} while(start), condition=again.0, body=around\n"
READ = "p = f32[4] get-tuple-element(loop), index=1\nROOT z = f32[4] negate(p)"
TWICE = (
    "a0 = f32[4] get-tuple-element(loop), index=0\na1 = f32[4] get-tuple-element(loop), index=1\n"
    f"a2 = pred[] get-tuple-element(loop), index=2\nagain.s = {STATE} tuple(a0, a1, a2)\n"
    f"second = {STATE} while(again.s), condition=again.1, body=step.1\n"
    "p = f32[4] get-tuple-element(second), index=1\nROOT z = f32[4] negate(p)"
)


@pytest.mark.parametrize("loop", [SIMPLE, NESTED], ids=["simple", "nested"])
@pytest.mark.parametrize("rest", [READ, TWICE], ids=["one", "one behind the other"])
def test_a_scheduled_loop_without_an_end_is_not_run_where_nothing_it_makes_is_read(loop, rest):
    x = np.arange(4, dtype=np.float32)
    text = _text(START + loop + rest)
    if loop is NESTED and rest is TWICE:
        text = text.replace(
            "condition=again.1, body=step.1\np", "condition=again.0, body=step.0\np"
        )
    (got,) = run_native(text, [x, np.bool_(True)])
    assert got.tolist() == (-x).tolist()


def test_what_stays_keeps_its_order():
    body = "n = f32[4] sine(x)\n" + SIMPLE + "m = f32[4] cosine(n)\n" + READ
    module = parse_hlo(_text(START + body))
    before = [x.name for x in module.schedule.sequence(module.entry)]
    assert remove_unread_loops(module) == 1
    after = [x.name for x in module.schedule.sequence(module.entry)]
    assert after == [x for x in before if x not in ("start", "loop", "p")]
    assert set(module.schedule.sequences) <= set(module.computations.values())
    assert [*module.computations.values()] == [module.entry]


@pytest.mark.parametrize(
    "rest",
    [
        "ROOT z = f32[4] get-tuple-element(loop), index=0",
        f"ROOT z = {STATE} copy(loop)",
        "p = f32[4] get-tuple-element(loop), index=1\nq = f32[4] get-tuple-element(loop), index=0\n"
        "ROOT z = f32[4] add(p, q)",
    ],
    ids=["what it makes", "as a whole", "both"],
)
def test_a_loop_that_is_read_stays(rest):
    module = parse_hlo(_text(START + SIMPLE + rest))
    assert remove_unread_loops(module) == 0
    assert any(x.opcode is Opcode.WHILE for x in module.entry.instructions.values())


def test_a_loop_with_an_effect_stays():
    effect = (
        'k = () custom-call(x), custom_call_target="f", custom_call_has_side_effect=true\n  y ='
    )
    module = parse_hlo(_text(START + SIMPLE + READ).replace("  y =", "  " + effect))
    assert remove_unread_loops(module) == 0
