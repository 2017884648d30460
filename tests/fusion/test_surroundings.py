"""Padding by any integer becomes part of the kernel of the convolution that slides over it."""

import numpy as np
import pytest
from tests.fusion.kernel_list import kernel_list

from lowtide import evaluate, parse_hlo
from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.compiler import plan
from lowtide.runtime.cpu.call import LinkedExecutable

TEXT = """HloModule m
ENTRY main {
  x = s8[1,12,14,40] parameter(0)
  w = s8[3,3,%s,%s] parameter(1)
  z = s8[] constant(-77)
  p = s8[1,14,16,40] pad(x, z), padding=0_0x1_1x%sx0_0
  c = s32[1,12,14,%s] convolution(p, w), window={size=3x3}, dim_labels=b01f_01io->b01f%s
  ROOT r = s32[1,12,14,%s] negate(c)
}"""
DENSE = (40, 24, "1_1", 24, "", 24)
DEPTHWISE = (1, 40, "1_1", 40, ", feature_group_count=40", 40)


@pytest.mark.parametrize("sizes", [DENSE, DEPTHWISE], ids=["dense", "depthwise"])
def test_padded_data_is_no_array_of_its_own(sizes: tuple[object, ...]) -> None:
    module = parse_hlo(TEXT % sizes)
    assert kernel_list(plan(module).module) == "epilogue(x, w): p c r"
    rng = np.random.default_rng(0)
    shapes = [x.shape.dimensions for x in module.entry.parameters]
    given = [rng.integers(-128, 128, s).astype(np.int8) for s in shapes]
    found = LinkedExecutable(build(module, CpuBackend(1)).program)(*given)
    np.testing.assert_array_equal(found, np.asarray(evaluate(module, given)))


def test_padded_data_that_something_else_reads_is_an_array() -> None:
    more = "n = s8[1,14,16,40] negate(p)  ROOT t = (s32[1,12,14,24], s8[1,14,16,40]) tuple(r, n)"
    text = (TEXT % DENSE).replace("ROOT r =", "r =").replace("\n}", f"\n  {more}\n}}")
    assert kernel_list(plan(parse_hlo(text)).module) == "p | epilogue(p, w): c r | n"
