"""Attention against the evaluator, as the passes form it: masks, groups, layouts, types."""

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import TARGETS, check_program, target_of

from lowtide.codegen.cpu import select
from lowtide.codegen.cpu.attention.kernel import plan_attention
from lowtide.fusion import attention as fusion
from lowtide.ir import ElementType, Opcode
from lowtide.ir.literal import DTYPES


@pytest.fixture(autouse=True)
def small_attention(monkeypatch):
    """Attentions of any size become kernels."""
    before = select.TEMPLATES[Opcode.FUSION]
    if plan_attention not in before:
        monkeypatch.setitem(select.TEMPLATES, Opcode.FUSION, (plan_attention, *before))
    monkeypatch.setattr(fusion._Finder, "__init__", _finder(fusion._Finder.__init__))


def _finder(init):
    def with_small_ones(self, computation, target, least_bytes):
        init(self, computation, target, 1 << 10)

    return with_small_ones


TEXT = """
HloModule m
most {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] maximum(a, b) }}
plus {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] add(a, b) }}
ENTRY main {{
  q = {t}[{q}] parameter(0)
  k = {t}[{k}] parameter(1)
  v = {t}[{v}] parameter(2)
  bias = {t}[{n},{m}] parameter(3)
  dots = {t}[{b},{n},{m}] dot(q, k), {first}
  {middle}
  low = {t}[] constant(-inf)
  zero = {t}[] constant(0)
  top = {t}[{b},{n}] reduce(z, low), dimensions={{2}}, to_apply=most
  tops = {t}[{b},{n},{m}] broadcast(top), dimensions={{0,1}}
  d = {t}[{b},{n},{m}] subtract(z, tops)
  e = {t}[{b},{n},{m}] exponential(d)
  s = {t}[{b},{n}] reduce(e, zero), dimensions={{2}}, to_apply=plus
  ss = {t}[{b},{n},{m}] broadcast(s), dimensions={{0,1}}
  p = {t}[{b},{n},{m}] divide(e, ss)
  o = {t}[{b},{n},{c}] dot(p, v), {second}
  {end}
}}
"""

PLAIN = "z = {t}[{b},{n},{m}] negate(dots)"
BIASED = (
    "bs = {t}[{b},{n},{m}] broadcast(bias), dimensions={{1,2}} z = {t}[{b},{n},{m}] add(dots, bs)"
)
CAPPED = "cap = {t}[{b},{n},{m}] tanh(dots) z = {t}[{b},{n},{m}] multiply(cap, cap)"
CAUSAL = """
  i = s32[{n},{m}] iota(), iota_dimension=0  j = s32[{n},{m}] iota(), iota_dimension=1
  g = pred[{n},{m}] compare(i, j), direction=GE
  gs = pred[{b},{n},{m}] broadcast(g), dimensions={{1,2}}
  no = {t}[] constant(-inf)  nos = {t}[{b},{n},{m}] broadcast(no), dimensions={{}}
  z = {t}[{b},{n},{m}] select(gs, dots, nos)
"""
MIDDLES = {"plain": PLAIN, "biased": BIASED, "capped": CAPPED, "causal": CAUSAL}

BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims="


def module(b, n, m, c, f, type_="f32", middle="plain", *, keys="{2}", values="{1}", end=""):
    sizes = {"t": type_, "b": b, "n": n, "m": m, "c": c}
    return TEXT.format(
        **sizes,
        q=f"{b},{n},{f}",
        k=f"{b},{m},{f}" if keys == "{2}" else f"{b},{f},{m}",
        v=f"{b},{m},{c}" if values == "{1}" else f"{b},{c},{m}",
        first=BATCHED + keys,
        second=BATCHED + values,
        middle=MIDDLES[middle].format(**sizes),
        end=end or f"ROOT r = {type_}[{b},{n},{c}] negate(o)",
    )


def inputs(b, n, m, c, f, type_="f32", keys="{2}", values="{1}"):
    rng = np.random.default_rng(0)
    dtype = DTYPES[ElementType(type_)]
    shapes = [
        (b, n, f),
        (b, m, f) if keys == "{2}" else (b, f, m),
        (b, m, c) if values == "{1}" else (b, c, m),
        (n, m),
    ]
    return [(rng.standard_normal(x) / 2).astype(dtype) for x in shapes]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize(
    "sizes", [(2, 33, 47, 20, 24), (1, 100, 130, 64, 16), (3, 16, 16, 5, 7), (1, 65, 300, 100, 33)]
)
def test_middles(sizes, middle, target):
    given = inputs(*sizes)
    check_program(module(*sizes, middle=middle), given, ["attention"], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keys", ["{2}", "{1}"])
@pytest.mark.parametrize("values", ["{1}", "{2}"])
def test_layouts(keys, values, target):
    sizes = (2, 40, 70, 24, 18)
    given = inputs(*sizes, keys=keys, values=values)
    check_program(module(*sizes, keys=keys, values=values), given, ["attention"], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["bf16", "f16", "f64"])
def test_types(type_, target):
    sizes = (2, 40, 70, 24, 18)
    given = inputs(*sizes, type_=type_)
    check_program(module(*sizes, type_, "causal"), given, ["attention"], target)


def test_a_result_that_is_written_transposed():
    sizes = (6, 40, 70, 24, 18)
    end = "t = f32[40,6,24] transpose(o), dimensions={1,0,2}  ROOT r = f32[40,144] reshape(t)"
    check_program(module(*sizes, end=end), inputs(*sizes), ["attention"])


def test_scratch_does_not_grow_with_rows():
    """As many bytes for a long sequence of queries as for a short one."""
    from lowtide import compiler
    from lowtide.frontend.hlo_text import parse_hlo

    found = []
    for n in (64, 4096):
        optimized = parse_hlo(module(2, n, 512, 64, 64))
        compiler.optimize(optimized, compiler.PlanOptions("fused"))
        fused = [x for x in optimized.entry.instructions.values() if x.opcode is Opcode.FUSION]
        plan = plan_attention(fused[0], target_of("native"))
        assert plan is not None
        found.append(plan.thread_bytes)
    assert found[0] == found[1] <= 1 << 20
