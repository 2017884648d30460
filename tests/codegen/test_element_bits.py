"""Bits read as another type: split, joined, or as they are."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import DTYPES

PAIRS = [
    ("s32[5,7]", "s8[5,7,4]"),
    ("u16[9]", "u4[9,4]"),
    ("f64[3,33]", "u32[3,33,2]"),
    ("u8[4,40,4]", "f32[4,40]"),
    ("bf16[37,2]", "u32[37]"),
    ("s4[5,2]", "s8[5]"),
    ("f32[40]", "s32[40]"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("given", "result"), PAIRS)
def test_bitcast_convert(given, result, target):
    text = f"""
HloModule m

ENTRY main {{
  x = {given} parameter(0)
  ROOT y = {result} bitcast-convert(x)
}}
"""
    shape = parse_hlo(text).entry.parameters[0].shape
    values = np.random.default_rng(0).integers(-8, 8, shape.dimensions)
    for stage in ("input", "fused"):
        check(text, [values.astype(DTYPES[shape.element_type])], target, stage)
