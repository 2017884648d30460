import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import check_jax, check_text, run_text

from lowtide.evaluator.sort_keys import sort_keys
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError

NAN = float("nan")
SPECIAL = np.array([1, NAN, -0.0, 0.0, np.inf, -NAN, -np.inf, 3, 3], np.float32)
SPECIAL[5] = -np.abs(SPECIAL[5])

ORDERS = {
    "less by key": "ROOT r = pred[] compare(a, b), direction=LT",
    "swapped operands": "ROOT r = pred[] compare(d, c), direction=LT",
    "total order": "ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER",
    "less or equal": "ROOT r = pred[] compare(a, b), direction=LE",
    "not greater or equal": """n = pred[] compare(a, b), direction=GE
      ROOT r = pred[] not(n)""",
    "two keys": """x = f32[] abs(a)
      y = f32[] abs(b)
      l = pred[] compare(x, y), direction=LT
      g = pred[] compare(c, d), direction=GT
      q = pred[] compare(y, x), direction=EQ
      n = pred[] and(g, q)
      ROOT r = pred[] or(n, l)""",
    "two keys by select": """l = pred[] compare(a, b), direction=LT
      g = pred[] compare(c, d), direction=LT
      e = pred[] compare(a, b), direction=EQ
      ROOT r = pred[] select(e, g, l)""",
    "negative first": """z = f32[] constant(0)
      l = pred[] compare(a, z), direction=LT
      g = pred[] compare(b, z), direction=GE
      ROOT e = pred[] and(l, g)""",
    "all equal": "ROOT k = pred[] constant(false)",
}
BY_KEYS = {"less by key", "swapped operands", "total order", "two keys"}


def sort_text(order, n, k, dimension):
    return f"""HloModule m
cmp {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  {ORDERS[order]}
}}
ENTRY e {{
  a = f32[{n},{k}] parameter(0)
  i = s32[{n},{k}] parameter(1)
  ROOT s = (f32[{n},{k}], s32[{n},{k}]) sort(a, i), dimensions={{{dimension}}},
    is_stable=true, to_apply=cmp
}}"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "k", "dimension"), [(7, 3, 0), (2, 37, 1), (3, 0, 1), (0, 3, 1)])
def test_orders_against_xla(order, n, k, dimension):
    rng = np.random.default_rng(n * k)
    keys = rng.normal(size=(n, k)).round().astype(np.float32)
    others = rng.integers(0, 3, (n, k)).astype(np.int32)
    check_text(sort_text(order, n, k, dimension), keys, others)


@pytest.mark.parametrize("order", ORDERS)
def test_which_comparators_are_recognized_as_keys(order):
    module = parse_hlo(sort_text(order, 2, 2, 0))
    assert (sort_keys(module.computations["cmp"]) is not None) == (order in BY_KEYS)


def test_mirror_has_to_be_exact():
    body = """x = f32[] abs(a)
      y = f32[] negate(b)
      ROOT r = pred[] compare(x, y), direction=LT"""
    text = sort_text("less by key", 2, 2, 0).replace(ORDERS["less by key"], body)
    assert sort_keys(parse_hlo(text).computations["cmp"]) is None


@pytest.mark.parametrize("size", [1, 2, 3, 31, 64, 100])
def test_merge_sort_is_stable_at_every_length(size):
    rng = np.random.default_rng(size)
    keys = rng.integers(-3, 3, (4, size)).astype(np.float32)
    places = np.broadcast_to(np.arange(size, dtype=np.int32), keys.shape)
    values, order = run_text(sort_text("not greater or equal", 4, size, 1), keys, places)
    expected = np.argsort(keys, axis=1, kind="stable")
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(keys, expected, 1))


def test_comparator_that_is_no_order_gives_a_permutation():
    body = "ROOT r = pred[] constant(true)"
    text = sort_text("less by key", 1, 50, 1).replace(ORDERS["less by key"], body)
    places = np.arange(50, dtype=np.int32)[None]
    _, order = run_text(text, np.zeros((1, 50), np.float32), places)
    assert sorted(order[0].tolist()) == list(range(50))


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.int8, np.uint32, np.bool_],
)
def test_jax_sorts(dtype):
    jax = pytest.importorskip("jax")
    values = (np.random.default_rng(0).normal(size=(4, 5, 6)) * 2).round()
    if np.dtype(dtype).kind in "ub":
        values = np.abs(values)
    values = values.astype(dtype)
    places = np.arange(120).reshape(4, 5, 6)

    def sorts(x, y):
        return jax.lax.sort((x, x, y), dimension=1, num_keys=2), jax.numpy.argsort(x, axis=0)

    check_jax(sorts, values, places)


def test_jax_order_of_nan_and_zeros():
    jax = pytest.importorskip("jax")
    check_jax(lambda x: jax.lax.sort((x, jax.numpy.arange(9))), SPECIAL)
    check_jax(lambda x: jax.lax.top_k(x, 9), SPECIAL)
    check_jax(jax.numpy.argsort, SPECIAL.astype(ml_dtypes.bfloat16))


def test_four_bit_keys():
    text = """HloModule m
cmp {
  a = s4[] parameter(0)
  b = s4[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT
}
ENTRY e {
  a = s4[5] parameter(0)
  ROOT s = s4[5] sort(a), dimensions={0}, to_apply=cmp
}"""
    values = np.array([-8, 7, 0, -1, 3], ml_dtypes.int4)
    assert run_text(text, values)[0].astype(int).tolist() == [7, 3, 0, -1, -8]


def topk_text(element_type, n, k, largest):
    return f"""HloModule m
ENTRY e {{
  a = {element_type}[{n}] parameter(0)
  ROOT r = ({element_type}[{k}], s32[{k}]) topk(a), k={k}, largest={largest}
}}"""


@pytest.mark.parametrize(
    ("largest", "places"),
    [("true", [1, 4, 7, 8, 0, 3, 2, 6, 5]), ("false", [5, 6, 2, 3, 0, 7, 8, 4, 1])],
)
def test_topk_is_in_total_order_and_stable(largest, places):
    found = check_text(topk_text("f32", 9, 9, largest), SPECIAL)
    assert found[1].tolist() == places


def test_topk_of_integers_and_of_nothing():
    found = run_text(topk_text("u8", 4, 3, "true"), np.array([3, 1, 3, 2], np.uint8))
    assert [x.tolist() for x in found] == [[3, 3, 2], [0, 2, 3]]
    found = run_text(topk_text("f32", 4, 0, "true"), np.zeros(4, np.float32))
    assert [x.shape for x in found] == [(0,), (0,)]


def test_topk_of_more_than_there_are_is_an_error():
    with pytest.raises(InvalidModuleError, match="k is 5"):
        run_text(topk_text("f32", 4, 5, "true"), np.zeros(4, np.float32))
