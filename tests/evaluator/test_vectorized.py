import numpy as np
import pytest

from lowtide.evaluator import Interpreter
from lowtide.evaluator.vectorized import as_ufunc, evaluate_elementwise
from lowtide.frontend.hlo_text import parse_hlo

BODIES = {
    "arithmetic": """f {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = f32[] constant(2)
      d = f32[] multiply(b, c)
      e = f32[1] reshape(d)
      g = f32[] reshape(e)
      ROOT r = f32[] subtract(a, g)
    }""",
    "conditional": """yes {
      t = (f32[], f32[]) parameter(0)
      x = f32[] get-tuple-element(t), index=0
      ROOT r = f32[] negate(x)
    }
    no {
      t = (f32[], f32[]) parameter(0)
      ROOT y = f32[] get-tuple-element(t), index=1
    }
    f {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      p = pred[] compare(a, b), direction=LT
      t = (f32[], f32[]) tuple(a, b)
      ROOT r = f32[] conditional(p, t, t), true_computation=yes, false_computation=no
    }""",
    "loop": """body {
      s = (f32[], f32[]) parameter(0)
      x = f32[] get-tuple-element(s), index=0
      n = f32[] get-tuple-element(s), index=1
      h = f32[] constant(0.5)
      y = f32[] multiply(x, h)
      o = f32[] constant(1)
      m = f32[] add(n, o)
      ROOT t = (f32[], f32[]) tuple(y, m)
    }
    cond {
      s = (f32[], f32[]) parameter(0)
      x = f32[] get-tuple-element(s), index=0
      o = f32[] constant(1)
      ROOT r = pred[] compare(x, o), direction=GT
    }
    f {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      t = (f32[], f32[]) tuple(a, b)
      w = (f32[], f32[]) while(t), condition=cond, body=body
      ROOT r = f32[] get-tuple-element(w), index=1
    }""",
    "call": """g {
      a = f32[] parameter(0)
      ROOT r = f32[] sine(a)
    }
    f {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = f32[] call(a), to_apply=g
      ROOT r = f32[] add(b, c)
    }""",
    "table, position by position": """f {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      t = f32[3] constant({10, 20, 30})
      i = s32[] convert(a)
      s = f32[1] dynamic-slice(t, i), dynamic_slice_sizes={1}
      r = f32[] reshape(s)
      ROOT q = f32[] add(r, b)
    }""",
    "tuple": """f {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      k = s32[] constant(7)
      u = (s32[], f32[]) tuple(k, a)
      ROOT t = (f32[], (s32[], f32[])) tuple(b, u)
    }""",
}


def module_with(body):
    return parse_hlo(f"HloModule m\n{body}\nENTRY e {{\n ROOT p = f32[] parameter(0)\n}}")


def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", BODIES)
def test_all_positions_at_once_is_each_position_by_itself(name):
    module = module_with(BODIES[name])
    computation = module.computations["f"]
    interpreter = Interpreter(module)
    a = np.array([[0, 1, 2], [5, 17, 40]], np.float32)
    b = np.array([3, 1, 2], np.float32)
    found = flat(evaluate_elementwise(interpreter, computation, [a, b]))
    for index in np.ndindex(2, 3):
        scalars = [a[index].reshape(()), b[index[1]].reshape(())]
        expected = flat(interpreter.run(computation, scalars))
        assert len(found) == len(expected)
        for x, y in zip(found, expected, strict=True):
            assert x.shape == (2, 3)
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x[index], y)


def test_scalars_and_constants_are_spread_over_the_shape():
    module = module_with(BODIES["tuple"])
    value = evaluate_elementwise(
        Interpreter(module), module.computations["f"], [np.zeros(4, np.float32), np.float32(1)]
    )
    assert [x.shape for x in flat(value)] == [(4,)] * 3


UFUNCS = [
    ("add(a, b)", "f32", "f32", np.add),
    ("maximum(b, a)", "s32", "s32", np.maximum),
    ("and(a, b)", "pred", "pred", np.logical_and),
    ("or(a, b)", "u8", "u8", np.bitwise_or),
    ("compare(a, b), direction=LT", "f32", "pred", np.less),
    ("compare(b, a), direction=LT", "f32", "pred", np.greater),
    ("compare(b, a), direction=EQ", "s32", "pred", np.equal),
    ("compare(a, b), direction=LT, type=TOTALORDER", "f32", "pred", None),
    ("add(a, b)", "bf16", "bf16", None),
    ("add(a, a)", "f32", "f32", None),
    ("subtract(a, b)", "f32", "f32", None),
]


@pytest.mark.parametrize(("root", "element_type", "result", "ufunc"), UFUNCS)
def test_plain_operations_are_recognized(root, element_type, result, ufunc):
    module = module_with(
        f"""f {{
      a = {element_type}[] parameter(0)
      b = {element_type}[] parameter(1)
      ROOT r = {result}[] {root}
    }}"""
    )
    assert as_ufunc(module.computations["f"]) is ufunc
