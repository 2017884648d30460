"""Kernels that lower the peak are kept exactly where their time is allowed."""

from itertools import pairwise

import pytest

import lowtide
from lowtide.compiler import PlanOptions, explain, proposals
from lowtide.compiler.stages import merging, pipeline
from lowtide.cost.machine import X86_SERVER
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.clone import clone_module
from lowtide.passes import Observer, Pass, run_pipeline
from lowtide.testing.check_pass import assert_same_values
from lowtide.verifier import verify


def chain(count: int) -> str:
    names = ["a", *[f"t{i}" for i in range(count - 1)], "v"]
    return "\n".join([f"  {new} = f32[64,256] tanh({old})" for old, new in pairwise(names)])


PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
SUM = """HloModule m

add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
"""
COSTLY = f"""
{SUM}
ENTRY main {{
  x = f32[64,256] parameter(0)
  w = f32[256,256] parameter(1)
  zero = f32[] constant(0)
  a = f32[64,256] dot(x, w), {PRODUCT}
{chain(8)}
  y = f32[64,256] dot(v, w), {PRODUCT}
  b = f32[64,256] dot(y, w), {PRODUCT}
  sum = f32[64] reduce(b, zero), dimensions={{1}}, to_apply=add
  sums = f32[64,256] broadcast(sum), dimensions={{0}}
  late = f32[64,256] multiply(v, sums)
  ROOT z = f32[64,256] add(late, a)
}}
"""
"""What takes long to compute lives across the peak, and so does what it is computed from."""


CHECKPOINT = f"""
{SUM}
ENTRY main {{
  x = f32[64,256] parameter(0)
  w = f32[256,256] parameter(1)
  v = f32[256,SIZE] parameter(2)
  zero = f32[] constant(0)
  y = f32[64,256] dot(x, w), {PRODUCT}
  z = f32[64,256] tanh(y)
  wide = f32[64,SIZE] dot(z, v), {PRODUCT}
  sum = f32[64] reduce(wide, zero), dimensions={{1}}, to_apply=add
  t = (f32[64,256], f32[256,256], f32[64]) tuple(x, w, sum)
  b = (f32[64,256], f32[256,256], f32[64]) opt-barrier(t)
  x.1 = f32[64,256] get-tuple-element(b), index=0
  w.1 = f32[256,256] get-tuple-element(b), index=1
  sum.1 = f32[64] get-tuple-element(b), index=2
  y.1 = f32[64,256] dot(x.1, w.1), {PRODUCT}
  z.1 = f32[64,256] tanh(y.1)
  e = f32[64,256] multiply(z.1, z.1)
  u = f32[256,1024] parameter(3)
  o = f32[64,1024] dot(e, u), {PRODUCT}
  ROOT results = (f32[64,1024], f32[64]) tuple(o, sum.1)
}}
"""
"""At the peak `e` and `o` are live; without the barrier `z` is live beside `wide`, too."""
BUSY = CHECKPOINT.replace(
    "  sum = f32[64] reduce(wide",
    f"""  square = f32[SIZE,SIZE] parameter(4)
  more = f32[64,SIZE] dot(wide, square), {PRODUCT}
  sum = f32[64] reduce(more""",
)
"""Where `wide` is large, it and `more` are live at the peak; without the barrier `z` is, too."""


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
    assert proposals.optimize(module, PlanOptions("scheduled", memory_priority=priority), observers)
    verify(module)
    return module


def needs(module: Module) -> tuple[int, float]:
    return proposals.needs(module, X86_SERVER)


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
    proposals.optimize(module, PlanOptions(stage, memory_priority=0.5))
    proposals.optimize(copy, PlanOptions(stage, memory_priority=0.0))
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


def with_and_without_barriers(text: str, observers: tuple[Observer, ...] = ()) -> Module:
    module = parse_hlo(text)
    proposals.optimize(module, PlanOptions("scheduled"), observers)
    verify(module)
    assert_same_values(parse_hlo(text), module)
    return module


def test_a_checkpoint_that_saves_nothing_is_computed_once() -> None:
    text = CHECKPOINT.replace("SIZE", "16")
    module = with_and_without_barriers(text)
    assert "opt-barrier" not in str(module)
    kept = parse_hlo(text)
    run_pipeline(kept, pipeline("scheduled"))
    assert "opt-barrier" in str(kept)
    assert needs(module)[0] <= needs(kept)[0]
    assert needs(module)[1] < needs(kept)[1]


def test_a_checkpoint_that_saves_memory_stays() -> None:
    text = BUSY.replace("SIZE", "2048")
    module = with_and_without_barriers(text)
    assert "opt-barrier" in str(module)
    merged = parse_hlo(text)
    run_pipeline(merged, (*merging(), *pipeline("scheduled")))
    assert needs(module)[0] < needs(merged)[0]


def test_observers_see_the_passes_that_drop_a_checkpoint() -> None:
    text = CHECKPOINT.replace("SIZE", "16")
    watch = Watch()
    module = with_and_without_barriers(text, (watch,))
    assert str(module) == str(with_and_without_barriers(text)) == watch.seen[-1]
    assert len(watch.seen) == 2
    assert "opt-barrier" in watch.seen[0] and "opt-barrier" not in watch.seen[1]
