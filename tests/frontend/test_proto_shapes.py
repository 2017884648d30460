"""Shapes in protobuf: what a layout says beyond its order comes back."""

import pytest

from lowtide.frontend.hlo_proto import read_hlo_proto, write_hlo_proto
from lowtide.frontend.hlo_text import parse_hlo

SHAPES = [
    "f32[4]",
    "f32[4]{0:S(1)}",
    "f32[2,3]{1,0:S(5)}",
    "f32[2,3]{0,1:S(5)}",
    "s4[6]{0:E(4)}",
    "f32[8,128]{1,0:T(8,128)}",
    "f32[<=4]",
    "f32[<=4,3]{1,0:S(2)}",
    "(f32[2]{0:S(1)}, s32[])",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_comes_back(shape) -> None:
    module = parse_hlo(f"HloModule m\nENTRY e {{\n  ROOT x = {shape} parameter(0)\n}}\n")
    again = read_hlo_proto(write_hlo_proto(module))
    assert again.entry.root.shape is module.entry.root.shape
