"""Sorts natively and by the evaluator: key types, comparators, dimensions, long rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.cpu.library.running import TARGETS, check, run

from lowtide.codegen.cpu.library.sort_parts import PART, SortParts
from lowtide.codegen.library.sort_keys import keys_of
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.inspection.sanitizer import sanitize
from lowtide.ir.literal import DTYPES
from lowtide.options import Options

SHAPES = [((1,), 0), ((7, 5), 0), ((3, 96), 1), ((2, 97), 1), ((2, 300, 3), 1), ((0, 4), 1)]
TYPES = ["f32", "f64", "s32", "u8", "s64", "u64", "f16", "bf16", "s8"]


def text_of(type_: str, shape, dimension: int, less: str) -> str:
    sizes = ",".join(map(str, shape))
    return f"""
HloModule m

less {{
  a = {type_}[] parameter(0)
  b = {type_}[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
{less}
}}

ENTRY main {{
  x = {type_}[{sizes}] parameter(0)
  y = s32[{sizes}] iota(), iota_dimension={dimension}
  ROOT s = ({type_}[{sizes}], s32[{sizes}]) sort(x, y), dimensions={{{dimension}}},
      is_stable=true, to_apply=less
}}
"""


def plain(direction: str, total: bool = False) -> str:
    kind = ", type=TOTALORDER" if total else ""
    return f"  ROOT r = pred[] compare(a, b), direction={direction}{kind}"


def numbers(type_: str, shape, seed: int = 0):
    """Few different numbers, so that many are equal; both zeros, infinities and NaN among them."""
    random = np.random.default_rng(seed)
    element = parse_hlo(text_of(type_, (1,), 0, plain("LT"))).entry.parameters[0].shape.element_type
    dtype = DTYPES[element]
    if not element.is_floating:
        low = -20 if element.is_signed else 0
        return random.integers(low, 20, shape).astype(dtype)
    values = random.integers(-20, 20, shape) / 4
    values = np.where(values == 0, random.choice([0.0, -0.0, np.inf, -np.inf], shape), values)
    return np.where(random.random(shape) < 0.1, np.nan, values).astype(dtype)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_keys_of_all_types(type_, direction):
    for shape, dimension in (SHAPES[1], SHAPES[4]):
        check(text_of(type_, shape, dimension, plain(direction)), [numbers(type_, shape)])


@pytest.mark.parametrize(("shape", "dimension"), SHAPES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("total", [False, True])
def test_shapes_and_orders_of_floats(shape, dimension, target, total):
    text = text_of("f32", shape, dimension, plain("LT", total))
    check(text, [numbers("f32", shape)], target)


@pytest.mark.parametrize(("type_", "shape"), [("f32", (1, PART + 9000)), ("s64", (5, PART + 1))])
def test_long_rows_are_merged_of_parts(type_, shape):
    text = text_of(type_, shape, 1, plain("GT"))
    assert SortParts(parse_hlo(text).entry.root).shared == (shape[0] == 1)
    check(text, [numbers(type_, shape)])


BY_RULE = """
  seven = s32[] constant(7)
  e = s32[] remainder(c, seven)
  f = s32[] remainder(d, seven)
  ge = pred[] compare(e, f), direction=GE
  ROOT r = pred[] not(ge)"""

BY_TWO_KEYS = """
  first = pred[] compare(a, b), direction=LT
  same = pred[] compare(a, b), direction=EQ
  second = pred[] compare(c, d), direction=GT
  both = pred[] and(same, second)
  ROOT r = pred[] or(first, both)"""

BY_BRANCHES = """
  minus = s32[] negate(c)
  first = pred[] compare(a, b), direction=LT
  t = (s32[], s32[]) tuple(c, d)
  ROOT r = pred[] conditional(first, t, t), true_computation=yes, false_computation=no"""

BRANCHES = """
yes {
  t = (s32[], s32[]) parameter(0)
  ROOT r = pred[] constant(true)
}

no {
  t = (s32[], s32[]) parameter(0)
  ROOT r = pred[] constant(false)
}
"""


@pytest.mark.parametrize("shape", [(1,), (2, 33), (PART + 70,)])
@pytest.mark.parametrize("rule", [BY_RULE, BY_TWO_KEYS, BY_BRANCHES])
def test_any_comparator(rule, shape):
    text = text_of("s32", shape, len(shape) - 1, rule)
    if rule is BY_BRANCHES:
        text = text.replace("less {", BRANCHES + "\nless {", 1)
    keys = keys_of(parse_hlo(text).entry.root.called_computations[0])
    assert (keys is not None) == (rule is BY_TWO_KEYS)
    check(text, [numbers("s32", shape)])


def test_keys_of_comparators_as_jax_writes_them():
    less = """
  zero = f32[] constant(0)
  p = pred[] compare(a, zero), direction=EQ
  q = pred[] compare(b, zero), direction=EQ
  e = f32[] select(p, zero, a)
  f = f32[] select(q, zero, b)
  ROOT r = pred[] compare(f, e), direction=GT, type=TOTALORDER"""
    text = text_of("f32", (50,), 0, less)
    (key,) = keys_of(parse_hlo(text).entry.root.called_computations[0])
    assert (key.descending, key.total_order, key.bits) == (False, True, 32)
    for stage in ("input", "fused"):
        check(text, [numbers("f32", (50,))], stage=stage)


@pytest.mark.parametrize("less", ["b", "c"])
def test_no_order_still_gives_a_permutation(less):
    """A comparator that is always true, or one that looks at other parameters, harms nothing."""
    rule = {"b": "  ROOT r = pred[] constant(true)", "c": plain("LE")}[less]
    values = numbers("s32", (PART + 5,))
    found, places = run(text_of("s32", values.shape, 0, rule), [values])
    assert np.array_equal(np.sort(places), np.arange(values.size))
    assert np.array_equal(found, values[places])


@settings(max_examples=10, deadline=None)
@given(size=st.integers(1, 400), rows=st.integers(1, 3), seed=st.integers(0, 99))
def test_any_size(size, rows, seed):
    text = text_of("f32", (rows, size), 1, plain("LT"))
    check(text, [numbers("f32", (rows, size), seed)])


IN_PLACE = """
HloModule m

less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = c64[] parameter(2)
  d = c64[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}

ENTRY main {
  x = s32[3,200] parameter(0)
  y = c64[3,200] parameter(1)
  p = s32[3,200] negate(x)
  q = c64[3,200] negate(y)
  ROOT s = (s32[3,200], c64[3,200]) sort(p, q), dimensions={1}, to_apply=less
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_results_in_the_place_of_operands(target):
    random = np.random.default_rng(7)
    values = random.integers(-50, 50, (3, 200)).astype(np.int32)
    others = (random.random((3, 200)) + 1j * random.random((3, 200))).astype(np.complex64)
    check(IN_PLACE, [values, others], target, stage="fused")


def test_a_comparator_of_any_kind_reads_no_record_that_was_not_written() -> None:
    """Records without a key say where an element lies: what scratch held is no such place."""
    text = """HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  one = f32[] constant(1)
  next = f32[] add(a, one)
  ROOT r = pred[] compare(next, b), direction=LT
}
ENTRY e {
  x = f32[3,37] parameter(0)
  ROOT s = f32[3,37] sort(x), dimensions={1}, to_apply=less
}"""
    x = np.random.default_rng(0).uniform(0, 50, (3, 37)).astype(np.float32)
    sanitize(parse_hlo(text), [x], Options(cache=False, threads=2))
