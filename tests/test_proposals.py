"""Kernels that lower the peak are kept exactly where their time is allowed."""

from itertools import pairwise

import pytest

import lowtide
from lowtide import proposals
from lowtide.compiler import explain
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.passes import Observer, Pass
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify


def chain(count: int) -> str:
    names = ["a", *[f"t{i}" for i in range(count - 1)], "v"]
    return "\n".join([f"  {new} = f32[64,256] tanh({old})" for old, new in pairwise(names)])


COSTLY = f"""
HloModule m

add {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}}

ENTRY main {{
  x = f32[64,256] parameter(0)
  w = f32[256,256] parameter(1)
  zero = f32[] constant(0)
  a = f32[64,256] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{chain(8)}
  y = f32[64,256] dot(v, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[64,256] dot(y, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  sum = f32[64] reduce(b, zero), dimensions={{1}}, to_apply=add
  sums = f32[64,256] broadcast(sum), dimensions={{0}}
  late = f32[64,256] multiply(v, sums)
  ROOT z = f32[64,256] add(late, a)
}}
"""
"""What takes long to compute lives across the peak, and so does what it is computed from."""


class Watch:
    """An observer that keeps the text of a module before and after."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def begin(self, module: Module) -> None:
        self.seen.append(str(module))

    def allows(self, step: Pass) -> bool:
        return True

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        assert changes >= 0

    def end(self, module: Module) -> None:
        self.seen.append(str(module))


def optimized(priority: float, observers: tuple[Observer, ...] = ()) -> Module:
    module = parse_hlo(COSTLY)
    assert proposals.optimize(module, "scheduled", observers, priority)
    verify(module)
    return module


def needs(module: Module) -> tuple[int, float]:
    return proposals.needs(module)


def test_what_costs_time_is_computed_again_only_where_that_is_allowed() -> None:
    plain, spent = optimized(0.0), optimized(0.5)
    (most, fewest), (least, seconds) = needs(plain), needs(spent)
    assert least < most
    assert fewest < seconds <= 1.5 * fewest
    assert_same_values(parse_hlo(COSTLY), spent)
    too_little = optimized((seconds / fewest - 1) / 4)
    assert str(too_little) == str(plain)


def test_observers_see_what_becomes_of_the_module() -> None:
    watch = Watch()
    module = optimized(0.5, (watch,))
    assert str(module) == str(optimized(0.5))
    assert watch.seen[0] == str(parse_hlo(COSTLY))
    assert watch.seen[1:] == [str(module)]


@pytest.mark.parametrize("stage", ["input", "simplified", "layout"])
def test_before_fusion_there_is_nothing_to_propose(stage: str) -> None:
    module = parse_hlo(COSTLY)
    copy = clone_module(module)
    proposals.optimize(module, stage, (), 0.5)
    proposals.optimize(copy, stage, (), 0.0)
    assert str(module) == str(copy)


def test_equal_modules_get_equal_proposals() -> None:
    first, second = explain(parse_hlo(COSTLY)), explain(parse_hlo(COSTLY))
    assert first.ladder == second.ladder
    assert str(optimized(0.5)) == str(optimized(0.5))


def test_the_option_reaches_the_plan_and_takes_parts_only() -> None:
    module = parse_hlo(COSTLY)
    most, least = [
        lowtide.explain(module, options=lowtide.Options(memory_priority=x)).ladder.arena_bytes
        for x in (0.0, 0.5)
    ]
    assert least < most
    for wrong in (-0.1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="memory_priority is a part of the time"):
            lowtide.Options(memory_priority=wrong)
