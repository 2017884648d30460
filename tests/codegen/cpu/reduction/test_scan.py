"""Scans against the evaluator: along and across memory, both ways, in parts."""

import numpy as np
import pytest
from tests.codegen.cpu.reduction.kernels import TARGETS, check_kernel, random

from lowtide.codegen.cpu.reduction.scan import plan_scan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType
from lowtide.llvm.target import host_target


def text(body, type_, carry, sizes, dimension, *, reverse):
    rest = [x for d, x in enumerate(sizes) if d != dimension]
    part = ",".join(map(str, rest))
    body = body.format(t=f"{type_}[{part}]", c=f"{carry}[{part}]")
    whole = f"{type_}[{','.join(map(str, sizes))}]"
    way = ", is_reverse=true" if reverse else ""
    return f"""
HloModule m
step {{ x = {type_}[{part}] parameter(0)  c = {carry}[{part}] parameter(1) {body} }}
ENTRY main {{
  x = {whole} parameter(0)
  start = {carry}[{part}] parameter(1)
  ROOT y = ({whole}, {carry}[{part}]) scan(x, start),
    dimensions={{{dimension}}}, num_carries=1{way}, to_apply=step
}}
"""


WIDE = "w = {c} convert(x)  n = {c} add(c, w)  o = {t} convert(n)  ROOT r = ({t}, {c}) tuple(o, n)"
MOST = "n = {c} maximum(x, c)  ROOT r = ({t}, {c}) tuple(n, n)"
DECAY = (
    "d = {c} tanh(c)  s = {t} multiply(x, x)  n = {c} add(d, s)  ROOT r = ({t}, {c}) tuple(d, n)"
)

BODIES = {
    "sum": ("n = {c} add(c, x)  ROOT r = ({t}, {c}) tuple(n, n)", "s32", "s32"),
    "wide": (WIDE, "f32", "f64"),
    "greatest": (MOST, "f32", "f32"),
    "of no operation": (DECAY, "f32", "f32"),
}

SIZES = [
    ((1000,), 0),
    ((40000,), 0),
    ((3, 17001), 1),
    ((20, 5), 1),
    ((5, 20), 0),
    ((9, 33, 70), 1),
    ((9, 33, 70), 0),
    ((9, 33, 70), 2),
    ((300, 1), 0),
    ((1, 7), 0),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("sizes", "dimension"), SIZES)
def test_scan(sizes, dimension, body, reverse, target):
    step, type_, carry = BODIES[body]
    rng = np.random.default_rng(0)
    rest = [x for d, x in enumerate(sizes) if d != dimension]
    module = text(step, type_, carry, sizes, dimension, reverse=reverse)
    given = [random(rng, sizes, ElementType(type_)), random(rng, rest, ElementType(carry))]
    check_kernel(module, given, plan_scan, target)


def test_one_long_row_is_split():
    step, type_, carry = BODIES["wide"]
    root = parse_hlo(text(step, type_, carry, (1 << 20,), 0, reverse=False)).entry.root
    plan = plan_scan(root, host_target())
    assert plan is not None
    assert len(plan.emit().phases) == 2
    assert plan.shared_bytes <= 1 << 12


@pytest.mark.parametrize(("sizes", "dimension"), [((5,), 0), ((3, 5), 1), ((5, 3), 0)])
def test_few_short_chains_are_known_to_take_little(sizes, dimension):
    """By that time programs decide what is one function, and what other threads are asked for."""
    body, type_, carry = BODIES["wide"]
    root = parse_hlo(text(body, type_, carry, sizes, dimension, reverse=False)).entry.root
    plan = plan_scan(root, host_target())
    assert plan is not None
    assert sum(x.units * x.unit_seconds for x in plan.emit().phases) < 1e-7
