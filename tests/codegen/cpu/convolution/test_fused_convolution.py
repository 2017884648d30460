"""Convolutions with what is fused into them give what the evaluator gives."""

import re

import numpy as np
import pytest
from tests.codegen.cpu.convolution.running import check, numbers, target_of
from tests.codegen.cpu.convolution.windows import Convolution, Window
from tests.codegen.running import Kernel

from lowtide.codegen.cpu.convolution.convolution import plan_fused_convolution
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType

SAME = Window(3, low=1, high=1)
SHAPE = "f32[2,9,11,20]"
PLAIN = Convolution(2, 17, 20, (9, 11), (SAME, SAME))


def fused(body: str, results: str) -> str:
    """A module whose root is a fusion with this body."""
    lines = [x.strip() for x in body.strip().splitlines()]
    parameters = [x for x in lines if " parameter(" in x]
    names = ", ".join([x.split(" = ")[0] for x in parameters])
    inside, outside = "\n  ".join(lines), "\n  ".join(parameters)
    return f"""HloModule fused
body {{
  {inside}
}}
ENTRY main {{
  {outside}
  ROOT fusion = {results} fusion({names}), kind=kOutput, calls=body
}}"""


def call(convolution: Convolution, x: str, w: str) -> str:
    """The convolution with other operands."""
    return re.sub(r"\(x, w\)", f"({x}, {w})", convolution.call)


EPILOGUE = """
  b = f32[20] parameter(2)
  r = {shape} parameter(3)
  z = f32[] constant(0)
  b1 = {shape} broadcast(b), dimensions={{3}}
  z1 = {shape} broadcast(z), dimensions={{}}
  s = {shape} multiply(c, b1)
  a = {shape} add(s, r)
"""

CASES = {
    "scale, residual, rectifier": (
        f"""
        x = f32[2,9,11,17] parameter(0)
        w = f32[3,3,17,20] parameter(1)
        c = {PLAIN.call}
        {EPILOGUE.format(shape=SHAPE)}
        ROOT q = {SHAPE} maximum(a, z1)""",
        SHAPE,
    ),
    "rectifier and scale before": (
        f"""
        x = f32[2,9,11,17] parameter(0)
        w = f32[3,3,17,20] parameter(1)
        m = f32[17] parameter(2)
        z = f32[] constant(0)
        m1 = f32[2,9,11,17] broadcast(m), dimensions={{3}}
        z1 = f32[2,9,11,17] broadcast(z), dimensions={{}}
        x1 = f32[2,9,11,17] multiply(x, m1)
        x2 = f32[2,9,11,17] add(x1, m1)
        x3 = f32[2,9,11,17] maximum(x2, z1)
        ROOT c = {call(PLAIN, "x3", "w")}""",
        SHAPE,
    ),
    "converted and turned kernel": (
        f"""
        x = bf16[2,9,11,17] parameter(0)
        w = s8[3,20,17,3] parameter(1)
        w1 = f32[3,20,17,3] convert(w)
        w2 = f32[3,3,17,20] transpose(w1), dimensions={{0,3,2,1}}
        w3 = f32[3,3,17,20] reverse(w2), dimensions={{0,1}}
        x1 = f32[2,9,11,17] convert(x)
        ROOT c = {call(PLAIN, "x1", "w3")}""",
        SHAPE,
    ),
    "several results, one transposed": (
        f"""
        x = f32[2,9,11,17] parameter(0)
        w = f32[3,3,17,20] parameter(1)
        c = {PLAIN.call}
        {EPILOGUE.format(shape=SHAPE)}
        n = bf16[2,9,11,20] convert(a)
        t = f32[20,2,9,11] transpose(c), dimensions={{3,0,1,2}}
        ROOT q = ({SHAPE}, bf16[2,9,11,20], f32[20,2,9,11]) tuple(c, n, t)""",
        f"({SHAPE}, bf16[2,9,11,20], f32[20,2,9,11])",
    ),
    "a constant array": (
        f"""
        x = f32[2,9,11,17] parameter(0)
        w = f32[3,3,17,20] parameter(1)
        k = f32[20] constant({{{", ".join([str(i) for i in range(20)])}}})
        k1 = {SHAPE} broadcast(k), dimensions={{3}}
        c = {PLAIN.call}
        ROOT a = {SHAPE} add(c, k1)""",
        SHAPE,
    ),
}


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", CASES)
def test_fusions(name: str, target: str) -> None:
    check(plan_fused_convolution, fused(*CASES[name]), target)


@pytest.mark.parametrize("features", [3, 20, 700])
@pytest.mark.parametrize("width", [11, 12, 29])
@pytest.mark.parametrize(
    "last",
    [
        "ROOT a = {shape} add(c, r)",
        "s = {shape} multiply(c, r)\n        ROOT a = {shape} subtract(r, s)",
    ],
)
def test_the_result_may_take_the_place_of_what_an_epilogue_reads(
    features: int, width: int, last: str
) -> None:
    """Tiles and blocks overlap where sizes do not divide; an element is written once."""
    convolution = Convolution(1, features, 20, (9, width), (SAME, SAME))
    x, w, shape = convolution.shapes
    text = fused(
        f"""
        x = {x} parameter(0)
        w = {w} parameter(1)
        r = {shape} parameter(2)
        c = {convolution.call}
        {last.format(shape=shape)}""",
        shape,
    )
    module = parse_hlo(text)
    given = [
        numbers(i, ElementType.F32, p.shape.dimensions)
        for i, p in enumerate(module.entry.parameters)
    ]
    wanted = np.asarray(evaluate(module, given))
    plan = plan_fused_convolution(module.entry.root, target_of("native"))
    assert plan is not None
    out = given[2].copy()
    Kernel(plan, target_of("native"))([given[0], given[1], out, out], step=1)
    np.testing.assert_array_equal(out, wanted)


def test_what_is_no_epilogue_is_left_to_others() -> None:
    text = fused(
        f"""
        x = f32[2,9,11,17] parameter(0)
        w = f32[3,3,17,20] parameter(1)
        c = {PLAIN.call}
        ROOT s = f32[2,9,11,10] slice(c), slice={{[0:2], [0:9], [0:11], [0:10]}}""",
        "f32[2,9,11,10]",
    )
    root = parse_hlo(text).entry.root
    assert plan_fused_convolution(root, target_of("native")) is None
