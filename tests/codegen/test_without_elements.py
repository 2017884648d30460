"""Kernels that reduce, join or multiply what has no elements: the code is there, none runs."""

import numpy as np
import pytest

import lowtide
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.options import Options

MADE = {
    "reshape": "m = f32[5,3,0] reshape(x)",
    "reshape of one dimension": "m = f32[0] reshape(x)",
    "bitcast": "m = f32[3,0,5]{1,0,2} bitcast(x)",
    "transpose": "m = f32[0,5,3] transpose(x), dimensions={1,2,0}",
    "slice": "m = f32[2,0,2] slice(x), slice={[0:2], [0:0], [1:5:2]}",
    "slice of all": "m = f32[0,7] slice(w), slice={[3:3], [0:7]}",
    "reverse": "m = f32[3,0,5] reverse(x), dimensions={0,1}",
    "broadcast": "m = f32[3,4,0,5] broadcast(x), dimensions={0,2,3}",
    "pad": "m = f32[4,0,5] pad(x, z), padding=1_0x0_0x0_0",
    "concatenate": "m = f32[6,0,5] concatenate(x, x), dimensions={0}",
    "iota": "m = f32[3,0] iota(), iota_dimension=0",
    "iota along nothing": "m = f32[3,0] iota(), iota_dimension=1",
    "dynamic slice": "m = f32[2,0,5] dynamic-slice(x, i, i, i), dynamic_slice_sizes={2,0,5}",
    "dynamic update slice": "m = f32[3,0,5] dynamic-update-slice(x, x, i, i, i)",
    "gather": "m = f32[0,7] gather(w, e), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,7}",
    "converted": "h = f16[3,0,5] convert(x)\n  m = f16[15,0] reshape(h)",
    "windows": "m = f32[3,0,4] reduce-window(x, z), window={size=1x1x2}, to_apply=add",
    "reduced": "r = f32[3,0] reduce(x, z), dimensions={2}, to_apply=add\n"
    "  m = f32[1,0,3] reshape(r)",
}

MODULE = """HloModule m
add { a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT c = T[] add(a, b) }
fused { x = f32[3,0,5] parameter(0)
  w = f32[4,7] parameter(1)
  i = s32[] parameter(2)
  e = s32[0,1] parameter(3)
  z = f32[] constant(0)
  MADE
  s = T[] constant(3)
  ROOT y = T[SIZES] reduce(m, s), dimensions={REDUCED}, to_apply=add }
ENTRY main { x = f32[3,0,5] parameter(0)
  w = f32[4,7] parameter(1)
  i = s32[] parameter(2)
  e = s32[0,1] parameter(3)
  ROOT r = T[SIZES] fusion(x, w, i, e), kind=kLoop, calls=fused }
"""


def module_with(made: str) -> str:
    """The module in which `m` is reduced along its dimensions of size 0."""
    kind, _, sizes = made.rpartition("m = ")[2].partition("]")[0].partition("[")
    dimensions = [int(x) for x in sizes.split(",")]
    kept = ",".join([str(x) for x in dimensions if x])
    reduced = ",".join([str(d) for d, x in enumerate(dimensions) if x == 0])
    text = MODULE.replace("MADE", made).replace("SIZES", kept).replace("REDUCED", reduced)
    head, _, rest = text.partition("fused")
    return head.replace("T[", f"{kind}[") + "fused" + rest.replace("T[", f"{kind}[")


@pytest.mark.parametrize("target", ["native", "cuda:emulated"])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_what_has_no_elements_is_reduced_in_a_kernel(made, target):
    module = parse_hlo(module_with(made))
    arguments = [
        np.zeros((3, 0, 5), np.float32),
        np.ones((4, 7), np.float32),
        np.int32(0),
        np.zeros((0, 1), np.int32),
    ]
    expected = np.asarray(evaluate(module, arguments))
    compiled = lowtide.compile(module, options=Options(stage="input", target=target))
    np.testing.assert_array_equal(np.asarray(compiled(*arguments)), expected)
