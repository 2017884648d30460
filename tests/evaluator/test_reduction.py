import ml_dtypes
import numpy as np
import pytest
from tests.evaluator.against_xla import assert_same, check_text, run_text

ARGMAX = """argmax {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(v, w), direction=GT
  ne = pred[] compare(v, v), direction=NE
  keep = pred[] or(gt, ne)
  eq = pred[] compare(v, w), direction=EQ
  lt = pred[] compare(i, j), direction=LT
  tie = pred[] and(eq, lt)
  first = pred[] or(keep, tie)
  x = f32[] select(keep, v, w)
  y = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(x, y)
}"""


def body(op, element_type):
    return f"""op {{
      a = {element_type}[] parameter(0)
      b = {element_type}[] parameter(1)
      ROOT r = {element_type}[] {op}(a, b)
    }}"""


@pytest.mark.parametrize("dimensions", [(), (1,), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize(("op", "init"), [("add", 0), ("maximum", -9), ("multiply", 1)])
def test_reducers_agree_with_xla(op, init, dimensions):
    left = [n for d, n in enumerate((3, 4, 5)) if d not in dimensions]
    check_text(
        f"""HloModule m
    {body(op, "f32")}
    ENTRY e {{
      x = f32[3,4,5] parameter(0)
      z = f32[] constant({init})
      ROOT r = f32[{",".join(map(str, left))}] reduce(x, z),
        dimensions={{{",".join(map(str, dimensions))}}}, to_apply=op
    }}""",
        np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32),
    )


@pytest.mark.parametrize("count", [1, 7, 5000])
def test_argmax_takes_the_first_of_equal_elements_and_nan(count):
    values = np.random.default_rng(count).integers(0, 50, (count, 2)).astype(np.float32)
    if count > 3:
        values[count // 2, 1] = np.nan
    found = run_text(
        f"""HloModule m
    {ARGMAX}
    ENTRY e {{
      x = f32[{count},2] parameter(0)
      i = s32[{count},2] iota(), iota_dimension=0
      lo = f32[] constant(-inf)
      z = s32[] constant(0)
      ROOT r = (f32[2], s32[2]) reduce(x, i, lo, z), dimensions={{0}}, to_apply=argmax
    }}""",
        values,
    )
    expected = values.argmax(0)
    assert found[1].tolist() == expected.tolist()
    np.testing.assert_array_equal(found[0], values[expected, [0, 1]])


def test_a_body_that_is_not_associative_folds_from_first_to_last():
    text = f"""HloModule m
    {body("subtract", "s32")}
    ENTRY e {{
      x = s32[5] parameter(0)
      z = s32[] constant(100)
      ROOT r = s32[] reduce(x, z), dimensions={{0}}, to_apply=op
    }}"""
    (found,) = run_text(text, np.arange(5, dtype=np.int32))
    assert int(found) == 90


def test_narrow_floats_are_summed_wide_and_rounded_once():
    text = f"""HloModule m
    {body("add", "bf16")}
    ENTRY e {{
      x = bf16[1000] parameter(0)
      z = bf16[] constant(0)
      ROOT r = bf16[] reduce(x, z), dimensions={{0}}, to_apply=op
    }}"""
    (found,) = run_text(text, np.ones(1000, ml_dtypes.bfloat16))
    assert float(found) == 1000


def test_long_f32_sums_along_outer_dimensions_stay_exact():
    text = f"""HloModule m
    {body("add", "f32")}
    ENTRY e {{
      x = f32[65536,2] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[2] reduce(x, z), dimensions={{0}}, to_apply=op
    }}"""
    x = np.random.default_rng(0).random((65536, 2)).astype(np.float32)
    (found,) = run_text(text, x)
    np.testing.assert_array_equal(found, x.sum(0, np.float64).astype(np.float32))


@pytest.mark.parametrize("element_type", ["s8", "s4", "u32", "pred"])
def test_integers_wrap_and_truth_values_join(element_type):
    text = f"""HloModule m
    {body("add", element_type)}
    ENTRY e {{
      x = {element_type}[20] parameter(0)
      z = {element_type}[] constant({"false" if element_type == "pred" else 0})
      ROOT r = {element_type}[] reduce(x, z), dimensions={{0}}, to_apply=op
    }}"""
    dtypes = {"s8": np.int8, "s4": ml_dtypes.int4, "u32": np.uint32, "pred": np.bool_}
    (found,) = run_text(text, np.full(20, 7).astype(dtypes[element_type]))
    assert int(found) == {"s8": 140 - 256, "s4": -4, "u32": 140, "pred": 1}[element_type]


def test_an_empty_dimension_gives_the_initial_value():
    text = f"""HloModule m
    {body("add", "f32")}
    {ARGMAX}
    ENTRY e {{
      x = f32[0,2] parameter(0)
      i = s32[0,2] iota(), iota_dimension=0
      z = f32[] constant(3)
      k = s32[] constant(4)
      a = f32[2] reduce(x, z), dimensions={{0}}, to_apply=op
      b = (f32[2], s32[2]) reduce(x, i, z, k), dimensions={{0}}, to_apply=argmax
      ROOT t = (f32[2], (f32[2], s32[2])) tuple(a, b)
    }}"""
    found = run_text(text, np.zeros((0, 2), np.float32))
    assert [x.tolist() for x in found] == [[3, 3], [3, 3], [4, 4]]


def test_map_runs_any_computation_at_each_position():
    text = """HloModule m
    f {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      s = f32[] sine(a)
      ROOT r = f32[] add(s, b)
    }
    ENTRY e {
      x = f32[2,3] parameter(0)
      y = f32[2,3] parameter(1)
      ROOT r = f32[2,3] map(x, y), dimensions={0,1}, to_apply=f
    }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same(run_text(text, x, x), [np.sin(x) + x], 1e-6)


def test_dimensions_are_reduced_in_row_major_order_however_they_are_listed():
    """The computation is not commutative, so that the order of elements shows."""
    text = """f { a = f32[] parameter(0)
      b = f32[] parameter(1)
      two = f32[] constant(2)
      d = f32[] multiply(a, two)
      ROOT r = f32[] add(d, b) }
    ENTRY e { x = f32[2,3] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={DIMS}, to_apply=f }"""
    x = np.array([[1, 0, 2], [0, 3, 5]], np.float32)
    wanted = 0.0
    for element in x.ravel():
        wanted = 2 * wanted + element
    for listed in ("0,1", "1,0"):
        (found,) = run_text(text.replace("DIMS", listed), x)
        assert found == wanted
