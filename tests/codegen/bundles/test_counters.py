"""Counters of long loops, which LLVM does not see as such."""

import re
from typing import Any

import numpy as np
import pytest
from tests.codegen.bundles.programs import assert_same_bits, bundles_of, program_of, results

from lowtide.backends import cpu
from lowtide.codegen.bundles.bundles import Bundled, bundled
from lowtide.evaluator import array_leaves, evaluate
from lowtide.frontend.hlo_text import parse_hlo

HIDDEN = re.compile(r'call (i\d+) asm "", "=r,0"')


def loop_of(type_: str, rounds: int, step: str = "1") -> str:
    """Return a loop that mixes the bits of its counter so many rounds."""
    mixed, last = [], "i"
    for k in range(rounds):
        mixed += [
            f"  a{k} = {type_}[] multiply({last}, odd)",
            f"  b{k} = {type_}[] add(a{k}, {last})",
            f"  less{k} = {type_}[] subtract(b{k}, x)",
            f"  d{k} = {type_}[] maximum(less{k}, a{k})",
        ]
        last = f"d{k}"
    lines = "\n".join(mixed)
    return f"""HloModule m

body {{
  p = ({type_}[], {type_}[]) parameter(0)
  i = {type_}[] get-tuple-element(p), index=0
  x = {type_}[] get-tuple-element(p), index=1
  step = {type_}[] constant({step})
  odd = {type_}[] constant(3)
  next = {type_}[] add(i, step)
{lines}
  ROOT r = ({type_}[], {type_}[]) tuple(next, {last})
}}

condition {{
  p = ({type_}[], {type_}[]) parameter(0)
  i = {type_}[] get-tuple-element(p), index=0
  n = {type_}[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}}

ENTRY e {{
  x = {type_}[] parameter(0)
  zero = {type_}[] constant(0)
  t = ({type_}[], {type_}[]) tuple(zero, x)
  w = ({type_}[], {type_}[]) while(t), condition=condition, body=body
  ROOT y = {type_}[] get-tuple-element(w), index=1
}}
"""


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the types of what passes through assembly in bundles."""
    found: list[str] = []

    def told(*given: Any) -> Bundled:
        made = bundled(*given)
        found.extend([x for text in made.texts for x in HIDDEN.findall(text)])
        return made

    monkeypatch.setattr(cpu, "bundled", told)
    return found


@pytest.mark.parametrize("type_", ["s32", "u32", "s64", "f32", "f64"])
def test_a_counter_of_a_long_loop_is_hidden_and_counts(type_: str, hidden: list[str]) -> None:
    text = loop_of(type_, rounds=80)
    given = np.array(5).astype({"s": "i", "u": "u", "f": "f"}[type_[0]] + str(int(type_[1:]) // 8))
    program = program_of(text)
    assert hidden == [f"i{type_[1:]}"]
    with np.errstate(over="ignore"):
        (expected,) = array_leaves(evaluate(parse_hlo(text), [given]))
    np.testing.assert_allclose(results(program, given)[0], expected, rtol=1e-4)
    assert_same_bits(program, given)


@pytest.mark.parametrize("type_, rounds", [("s32", 4), ("s8", 80)])
def test_counters_of_short_loops_and_short_counters_are_seen(
    type_: str, rounds: int, hidden: list[str]
) -> None:
    assert len(bundles_of(program_of(loop_of(type_, rounds)))) == 1
    assert hidden == []
