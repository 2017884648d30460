"""Operands whose features or columns do not lie together are transposed square by square."""

import re

import pytest
from tests.codegen.cpu.convolution.running import check, target_of

from lowtide.codegen.cpu.convolution.convolution import plan_convolution, plan_fused_convolution
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.llvm.function import module_text


def channels_first(
    features: int, outputs: int, size: int, how: str, type_: str = "f32", batch: int = 2
) -> str:
    """A convolution of images NCHW by a kernel OIHW, in a fusion that computes it channels last."""
    window = re.search(r"size=(\d+)x(\d+)", how)
    assert window is not None
    high, wide = (int(x) for x in window.groups())
    stride = 2 if "stride=2x2" in how else 1
    pad = (high - 1) // 2
    places = (size + 2 * pad - high) // stride + 1
    result = f"{type_}[{batch},{outputs},{places},{places}]"
    return f"""HloModule m
body {{
  x = {type_}[{batch},{features},{size},{size}] parameter(0)
  w = {type_}[{outputs},{features},{high},{wide}] parameter(1)
  x1 = {type_}[{batch},{size},{size},{features}] transpose(x), dimensions={{0,2,3,1}}
  w1 = {type_}[{high},{wide},{features},{outputs}] transpose(w), dimensions={{2,3,1,0}}
  c = {type_}[{batch},{places},{places},{outputs}] convolution(x1, w1),
    window={{{how} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels=b01f_01io->b01f
  ROOT t = {result} transpose(c), dimensions={{0,3,1,2}}
}}
ENTRY e {{
  x = {type_}[{batch},{features},{size},{size}] parameter(0)
  w = {type_}[{outputs},{features},{high},{wide}] parameter(1)
  ROOT f = {result} fusion(x, w), kind=kOutput, calls=body
}}"""


def by_input(features: int, outputs: int, size: int, window: int) -> str:
    """The gradient by the input: the kernel reversed, its columns a window apart."""
    pad = window // 2
    result = f"f32[2,{features},{size},{size}]"
    return f"""HloModule m
body {{
  w = f32[{outputs},{features},{window},{window}] parameter(0)
  y = f32[2,{size},{size},{outputs}] parameter(1)
  w1 = f32[{outputs},{window},{window},{features}] transpose(w), dimensions={{0,2,3,1}}
  c = f32[2,{size},{size},{features}] convolution(y, w1),
    window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad} rhs_reversal=1x1}},
    dim_labels=b01f_i01o->b01f
  ROOT t = {result} transpose(c), dimensions={{0,3,1,2}}
}}
ENTRY e {{
  w = f32[{outputs},{features},{window},{window}] parameter(0)
  y = f32[2,{size},{size},{outputs}] parameter(1)
  ROOT f = {result} fusion(w, y), kind=kOutput, calls=body
}}"""


def by_filter(features: int, outputs: int, size: int, batch: int) -> str:
    """The gradient by the kernel with a stride of 2: images are contracted, places are taps."""
    half = size // 2
    result = f"f32[{outputs},{features},3,3]"
    return f"""HloModule m
body {{
  x = f32[{batch},{features},{size},{size}] parameter(0)
  y = f32[{batch},{outputs},{half},{half}] parameter(1)
  x1 = f32[{batch},{size},{size},{features}] transpose(x), dimensions={{0,2,3,1}}
  y1 = f32[{batch},{half},{half},{outputs}] transpose(y), dimensions={{0,2,3,1}}
  c = f32[{features},3,3,{outputs}] convolution(x1, y1),
    window={{size={half}x{half} pad=1_0x1_0 rhs_dilate=2x2}}, dim_labels=f01b_i01o->b01f
  ROOT t = {result} transpose(c), dimensions={{3,0,1,2}}
}}
ENTRY e {{
  x = f32[{batch},{features},{size},{size}] parameter(0)
  y = f32[{batch},{outputs},{half},{half}] parameter(1)
  ROOT f = {result} fusion(x, y), kind=kOutput, calls=body
}}"""


CASES = {
    "3x3": channels_first(32, 48, 12, "size=3x3"),
    "3x3 of other sizes": channels_first(19, 37, 11, "size=3x3"),
    "3x3 of short lines": channels_first(24, 33, 5, "size=3x3"),
    "3x3 of many features": channels_first(200, 40, 9, "size=3x3"),
    "3x3, stride 2": channels_first(33, 64, 14, "size=3x3 stride=2x2"),
    "1x1": channels_first(40, 52, 9, "size=1x1"),
    "1x1 of uneven blocks": channels_first(1300, 20, 9, "size=1x1", batch=1),
    "7x7 of few features": channels_first(3, 40, 22, "size=7x7 stride=2x2"),
    "bf16": channels_first(33, 40, 12, "size=3x3", "bf16"),
    "f16": channels_first(16, 32, 9, "size=3x3", "f16"),
    "f64": channels_first(16, 32, 9, "size=3x3", "f64"),
    "s8": channels_first(20, 24, 9, "size=3x3", "s8"),
    "by input": by_input(35, 32, 12, 3),
    "by input, 5x5": by_input(19, 32, 12, 5),
    "by filter": by_filter(33, 40, 14, 3),
    "by filter of long lines": by_filter(7, 20, 62, 2),
    "by filter of few features": by_filter(5, 16, 30, 9),
}


@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize("name", CASES)
def test_forms(name: str, target: str) -> None:
    check(plan_fused_convolution, CASES[name], target)


@pytest.mark.parametrize("target", ["native", "avx2"])
def test_an_operand_may_be_any_parameter_of_the_module(target: str) -> None:
    """A convolution by itself: parameters have the numbers of the module, not of the operands."""
    check(
        plan_convolution,
        """HloModule m
ENTRY e {
  other = f32[3] parameter(0)
  w = f32[24,20,3,3] parameter(1)
  another = f32[5] parameter(2)
  x = f32[2,9,11,20] parameter(3)
  ROOT c = f32[2,9,11,24] convolution(x, w), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_oi01->b01f
}""",
        target,
    )


TURNED = {
    "3x3": ("slab", "panel"),
    "7x7 of few features": ("panel",),
    "by input": ("panel",),
    "by filter": ("slab", "panel"),
    "bf16": ("slab", "panel"),
}


@pytest.mark.parametrize("name", TURNED)
def test_squares_are_loaded_whole(name: str) -> None:
    """Sixteen bytes of each line are loaded at once, and no lane by itself."""
    plan = plan_fused_convolution(parse_hlo(CASES[name]).entry.root, target_of("avx2"))
    assert plan is not None
    for kind in TURNED[name]:
        texts = [module_text([x]) for x in plan.emit().functions if x.name.startswith(kind)]
        assert texts
        for text in texts:
            assert re.search(r"load <(4 x i32|8 x i16)>", text)
            assert "gather" not in text
