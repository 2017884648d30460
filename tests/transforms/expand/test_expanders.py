"""Expanders: what they write computes the same, has no operation of the kind left, and settles."""

import numpy as np
import pytest

import lowtide
from lowtide.evaluator import evaluate
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.passes.registry import passes
from lowtide.testing.check_pass import assert_same_values, seeded_arguments
from lowtide.testing.check_rule import leaves, module_of
from lowtide.verifier import verify

OUTSIDE = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }

iadd { a.1 = s32[] parameter(0)
  b.1 = s32[] parameter(1)
  ROOT c.1 = s32[] add(a.1, b.1) }

imax { a.2 = s32[] parameter(0)
  b.2 = s32[] parameter(1)
  ROOT c.2 = s32[] maximum(a.2, b.2) }

ge { a.3 = f32[] parameter(0)
  b.3 = f32[] parameter(1)
  ROOT c.3 = pred[] compare(a.3, b.3), direction=GE }

gt { a.4 = f32[] parameter(0)
  b.4 = f32[] parameter(1)
  ROOT c.4 = pred[] compare(a.4, b.4), direction=GT }

affine { a.5 = f32[] parameter(0)
  b.5 = f32[] parameter(1)
  c.5 = f32[] parameter(2)
  d.5 = f32[] parameter(3)
  p.5 = f32[] multiply(a.5, c.5)
  q.5 = f32[] multiply(b.5, c.5)
  r.5 = f32[] add(q.5, d.5)
  ROOT t.5 = (f32[], f32[]) tuple(p.5, r.5) }

mixed { a.6 = f32[] parameter(0)
  b.6 = s32[] parameter(1)
  two = s32[] constant(2)
  d.6 = s32[] multiply(b.6, two)
  e.6 = f32[] convert(d.6)
  f.6 = pred[] compare(a.6, e.6), direction=LT
  ROOT g.6 = f32[] select(f.6, a.6, e.6) }

logsumexp { a.7 = f32[] parameter(0)
  b.7 = f32[] parameter(1)
  c.7 = f32[] exponential(a.7)
  d.7 = f32[] exponential(b.7)
  e.7 = f32[] add(c.7, d.7)
  ROOT f.7 = f32[] log(e.7) }
"""


def expanded(name: str, body: str, outside: str = OUTSIDE) -> tuple[lowtide.Module, lowtide.Module]:
    """Return the module of some lines before and after a pass, which has to settle."""
    module = module_of(body, outside)
    before = clone_module(module)
    assert passes()[name].run(module)
    verify(module)
    text = to_text(module, COMPLETE)
    assert passes()[name].run(module) == 0
    assert to_text(module, COMPLETE) == text
    return before, module


def opcodes(module: lowtide.Module) -> set[str]:
    return {x.opcode.value for c in module.computations.values() for x in c.instructions.values()}


def check(name: str, opcode: str, body: str) -> None:
    before, after = expanded(name, body)
    assert opcode not in opcodes(after)
    assert_same_values(before, after)


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("feature", [0, 1, 2])
def test_batch_norm(kind: str, feature: int) -> None:
    size = (4, 3, 5)[feature]
    a, v = f"{kind}[4,3,5]", f"{kind}[{size}]"
    how = f"epsilon=0.001, feature_index={feature}"
    head = f"""
      x = {a} parameter(0)
      s = {v} parameter(1)
      o = {v} parameter(2)
    """
    check(
        "expand-batch-norm",
        "batch-norm-training",
        f"{head} r = ({a}, {v}, {v}) batch-norm-training(x, s, o), {how}",
    )
    check(
        "expand-batch-norm",
        "batch-norm-inference",
        f"""{head} m = {v} parameter(3)
        w = {v} parameter(4)
        z = {v} exponential(w)
        r = {a} batch-norm-inference(x, s, o, m, z), {how}""",
    )
    check(
        "expand-batch-norm",
        "batch-norm-grad",
        f"""{head} z = {v} exponential(o)
        g = {a} parameter(3)
        r = ({a}, {v}, {v}) batch-norm-grad(x, s, o, z, g), {how}""",
    )


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16", "f64", "f8e4m3fn"])
def test_logistic(kind: str) -> None:
    check("expand-logistic", "logistic", f"x = {kind}[9] parameter(0)\n y = {kind}[9] logistic(x)")
    before, after = expanded(
        "expand-logistic", f"x = {kind}[4] parameter(0)\n y = {kind}[4] logistic(x)"
    )
    dtype = evaluate(before, seeded_arguments(before, 0)).dtype
    extreme = np.array([1e4, -1e4, np.inf, -np.inf]).astype(dtype)
    with np.errstate(all="ignore"):
        pair = [np.asarray(evaluate(x, [extreme])).astype(float) for x in (before, after)]
    np.testing.assert_array_equal(*pair)


def test_maps_of_several_types() -> None:
    check(
        "expand-map",
        "map",
        """x = f32[3,4] parameter(0)
        y = s32[3,4] parameter(1)
        z = f32[3,4] map(x, y), dimensions={0,1}, to_apply=mixed""",
    )


@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("pad", ["{0}_0", "0_{0}"])
@pytest.mark.parametrize(("reducer", "kind"), [("add", "f32"), ("iadd", "s32"), ("imax", "s32")])
def test_cumulative_windows(size: int, pad: str, reducer: str, kind: str) -> None:
    """The window of the other dimension is of one element, or cumulative too."""
    padding = pad.format(size - 1)
    body = f"""x = {kind}[{size},3] parameter(0)
        i = {kind}[] parameter(1)
        y = {kind}[{size},3] reduce-window(x, i),
          window={{size={size}x%s pad={padding}x%s}}, to_apply={reducer}"""
    body = " ".join(body.rsplit("\n", 1))
    check("expand-cumulative-window", "reduce-window", body % (3, "2_0"))
    if size > 1:
        check("expand-cumulative-window", "reduce-window", body % (1, "0_0"))


def test_cumulative_windows_of_several_operands_keep_their_order() -> None:
    """The reducer composes affine functions, which does not commute."""
    body = """x = f32[6] parameter(0)
        y = f32[6] parameter(1)
        one = f32[] constant(1)
        zero = f32[] constant(0)
        r = (f32[6], f32[6]) reduce-window(x, y, one, zero), window={size=6 pad=%s}, to_apply=affine
        """
    check("expand-cumulative-window", "reduce-window", body % "5_0")
    check("expand-cumulative-window", "reduce-window", body % "0_5")
    check(
        "expand-cumulative-window",
        "reduce-window",
        """x = f32[5] parameter(0)
        low = f32[] constant(-inf)
        r = f32[5] reduce-window(x, low), window={size=5 pad=4_0}, to_apply=logsumexp""",
    )


def test_other_windows_stay() -> None:
    for window in ("size=4 pad=2_1", "size=4 pad=3_0 stride=2", "size=3 pad=2_0"):
        module = module_of(
            f"""x = f32[4] parameter(0)
            z = f32[] constant(0)
            y = f32[{2 if "stride" in window else 4}] reduce-window(x, z), """
            f"window={{{window}}}, to_apply=add",
            OUTSIDE,
        )
        assert passes()["expand-cumulative-window"].run(module) == 0


@pytest.mark.parametrize("select", ["ge", "gt"])
@pytest.mark.parametrize(
    ("window", "places"),
    [
        ("size=1x2x2 stride=1x2x2", "2,3,2"),
        ("size=1x3x3 stride=1x2x2", "2,2,2"),
        ("size=1x3x3 stride=1x1x1 pad=0_0x1_1x1_1", "2,6,5"),
        ("size=1x2x1 stride=1x2x1 pad=0_0x2_2x0_0", "2,5,5"),
    ],
)
def test_select_and_scatter(select: str, window: str, places: str) -> None:
    check(
        "expand-select-and-scatter",
        "select-and-scatter",
        f"""x = f32[2,6,5] parameter(0)
        s = f32[{places}] parameter(1)
        i = f32[] parameter(2)
        r = f32[2,6,5] select-and-scatter(x, s, i), window={{{window}}}, select={select}, """
        "scatter=add",
    )


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_total_order(kind: str, direction: str) -> None:
    before, after = expanded(
        "expand-total-order",
        f"""x = {kind}[8,8] parameter(0)
        y = {kind}[8,8] parameter(1)
        z = pred[8,8] compare(x, y), direction={direction}, type=TOTALORDER""",
    )
    assert "TOTALORDER" not in str(after)
    dtype = seeded_arguments(before, 0)[0].dtype
    odd = np.array([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan, -np.nan]).astype(dtype)
    arguments = [np.broadcast_to(x, (8, 8)).copy() for x in (odd, odd[:, None])]
    np.testing.assert_array_equal(evaluate(after, arguments), evaluate(before, arguments))


@pytest.mark.parametrize("kind", ["f32", "bf16", "s32", "u8", "s64"])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_topk(kind: str, largest: str) -> None:
    before, after = expanded(
        "expand-topk",
        f"""x = {kind}[3,17] parameter(0)
        y = ({kind}[3,5], s32[3,5]) topk(x), k=5, largest={largest}""",
    )
    assert "topk" not in opcodes(after)
    for seed in range(3):
        arguments = seeded_arguments(before, seed)
        pairs = zip(*[leaves(evaluate(x, arguments)) for x in (before, after)], strict=True)
        for expected, got in pairs:
            assert expected.tobytes() == got.tobytes()


@pytest.mark.parametrize(
    ("kind", "scale", "blocks"),
    [("f8e4m3fn", "f8e8m0fnu", "3,4"), ("bf16", "f32", "3,1"), ("f32", "bf16", "1,8")],
)
def test_scaled_dot(kind: str, scale: str, blocks: str) -> None:
    check(
        "expand-scaled-dot",
        "scaled-dot",
        f"""a = {kind}[2,3,8] parameter(0)
        b = {kind}[2,8,5] parameter(1)
        s = {scale}[2,{blocks}] parameter(2)
        t = {scale}[1,2,5] parameter(3)
        y = f32[2,3,5] scaled-dot(a, b, s, t), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, """
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    )
