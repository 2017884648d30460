"""Computations in which no rule fits: they are looked at again once something changes."""

import pytest

import lowtide
from lowtide.ir import Computation
from lowtide.transforms.simplify import algebraic_simplifier
from lowtide.transforms.simplify.algebraic_simplifier import simplify

TEXT = """
HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
other {
  d = f32[4] parameter(0)
  ROOT e = f32[4] sine(d)
}
ENTRY main {
  x = f32[4] parameter(0)
  zero = f32[] constant(0)
  y = f32[4] call(x), to_apply=other
  zeros = f32[4] broadcast(zero), dimensions={}
  shifted = f32[4] add(zeros, y)
  ROOT s = f32[] reduce(shifted, zero), dimensions={0}, to_apply=sum
}
"""


def test_what_settled_is_looked_at_once_it_or_what_it_calls_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    rewrite = algebraic_simplifier.rewrite

    def noted(module: object, rules: object, computations: list[Computation]) -> object:
        looked.extend([x.name for x in computations])
        return rewrite(module, rules, computations)  # type: ignore[arg-type]

    monkeypatch.setattr(algebraic_simplifier, "rewrite", noted)
    module = lowtide.parse_hlo(TEXT)
    assert simplify(module) and set(looked) == {"sum", "other", "main"}
    looked.clear()
    assert simplify(module) == 0 and not looked
    module.computations["sum"].touch()
    assert simplify(module) == 0 and looked == ["sum", "main"]
    looked.clear()
    module.entry.touch()
    assert simplify(module) == 0 and looked == ["main"]
    looked.clear()
    simplify(module, fast_math=True)
    assert {"sum", "other", "main"} <= set(looked)
