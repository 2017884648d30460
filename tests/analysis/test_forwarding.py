"""Reshapes and transposes count as free exactly where they move nothing in memory."""

import math
import random

import numpy as np
import pytest

from lowtide.analysis.dataflow import ValueKind, dataflow
from lowtide.analysis.forwarding import is_bitcast_reshape, is_bitcast_transpose
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Layout, array_shape


def shape_of(dimensions, minor_to_major):
    return array_shape(ElementType.F32, dimensions, Layout(tuple(minor_to_major)))


def in_memory(values, minor_to_major):
    """The elements in the order in which they lie in memory."""
    return values.transpose(tuple(reversed(minor_to_major))).ravel()


@pytest.mark.parametrize("seed", range(300))
def test_a_free_transpose_keeps_the_order_in_memory(seed):
    draw = random.Random(seed)
    dimensions = tuple([draw.choice((1, 2, 3)) for _ in range(draw.randint(1, 4))])
    rank = len(dimensions)
    permutation = draw.sample(range(rank), rank)
    before, after = draw.sample(range(rank), rank), draw.sample(range(rank), rank)
    values = np.arange(math.prod(dimensions)).reshape(dimensions)
    result = values.transpose(permutation)
    same = (in_memory(values, before) == in_memory(result, after)).all()
    free = is_bitcast_transpose(
        shape_of(dimensions, before), shape_of(result.shape, after), tuple(permutation)
    )
    assert free == bool(same)


@pytest.mark.parametrize("seed", range(300))
def test_a_free_reshape_keeps_the_order_in_memory(seed):
    draw = random.Random(seed)
    dimensions = tuple([draw.choice((1, 2, 3, 4)) for _ in range(draw.randint(1, 3))])
    values = np.arange(math.prod(dimensions)).reshape(dimensions)
    target = draw.choice([(values.size,), (1, *dimensions), (*dimensions, 1), (values.size, 1, 1)])
    before = list(reversed(range(len(dimensions))))
    after = list(reversed(range(len(target))))
    if draw.random() < 0.5:
        draw.shuffle(before)
        draw.shuffle(after)
    same = (in_memory(values, before) == in_memory(values.reshape(target), after)).all()
    free = is_bitcast_reshape(shape_of(dimensions, before), shape_of(target, after))
    assert same or not free
    if before == sorted(before, reverse=True) and after == sorted(after, reverse=True):
        assert free


PASSING = """HloModule m
callee {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  n = f32[4] negate(y)
  ROOT t = (f32[4], f32[4]) tuple(x, n)
}
ENTRY main {
  p = f32[4] parameter(0)
  q = (f32[4], (f32[2], s32[])) parameter(1)
  g = (f32[2], s32[]) get-tuple-element(q), index=1
  h = s32[] get-tuple-element(g), index=1
  b = (f32[4], (f32[2], s32[])) opt-barrier(q)
  c = (f32[4], f32[4]) call(p, p), to_apply=callee
  m = f32[4] get-tuple-element(c), index=1
  s = f32[4] custom-call(m), custom_call_target="Sharding", sharding={replicated}
  cs = (f32[4], f32[4], u32[]) copy-start(p)
  cd = f32[4] copy-done(cs)
  ROOT r = (f32[4], f32[4], s32[], f32[4], f32[4]) tuple(p, s, h, m, cd)
}
"""


def test_values_are_passed_on():
    flow = dataflow(parse_hlo(PASSING).entry)
    flow = next(x for x in flow.values() if x.computation.name == "main")
    leaves = {x.name: flow.leaves_of(x) for x in flow.nodes}
    assert leaves["g"] == leaves["q"][1:]
    assert leaves["h"] == leaves["q"][2:]
    assert leaves["b"] == leaves["q"]
    assert leaves["c"][0] == leaves["p"][0]
    assert leaves["s"] == leaves["m"] == leaves["c"][1:]
    assert flow.value_kind[leaves["m"][0]] is ValueKind.RETURNED
    assert leaves["cs"][1] == leaves["p"][0] != leaves["cs"][0]
    assert leaves["cd"] == leaves["cs"][:1]
    expected = (*leaves["p"], *leaves["m"], *leaves["h"], *leaves["m"], *leaves["cd"])
    assert leaves["r"] == expected
    reads = {x.name: flow.reads[flow.number[x]] for x in flow.nodes}
    assert reads["r"] == reads["g"] == reads["b"] == reads["s"] == ()
    assert set(reads["cd"]) == set(leaves["cs"])
