"""Operations on arrays without elements, whose other dimensions may be longer than any memory."""

import numpy as np
import pytest

import lowtide
from lowtide.ir.literal import DTYPES

LONG = 10**12
COMPUTATIONS = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
"""
X = f"x = f32[{LONG},0] parameter(0)\n"
ZERO = "z = f32[] constant(0)\n"
CASES = {
    "iota": f"ROOT r = f32[{LONG},0] iota(), iota_dimension=0",
    "iota last": f"ROOT r = s32[0,{LONG}] iota(), iota_dimension=1",
    "elementwise": f"{X} ROOT r = f32[{LONG},0] add(x, x)",
    "transpose": f"{X} ROOT r = f32[0,{LONG}] transpose(x), dimensions={{1,0}}",
    "concatenate": f"{X} ROOT r = f32[{2 * LONG},0] concatenate(x, x), dimensions={{0}}",
    "pad": f"{X}{ZERO} ROOT r = f32[{2 * LONG - 1},0] pad(x, z), padding=0_0_1x0_0",
    "reduce": f"{X}{ZERO} ROOT r = f32[0] reduce(x, z), dimensions={{0}}, to_apply=add",
    "window": f"{X}{ZERO} ROOT r = f32[{LONG - 1},0] reduce-window(x, z), window={{size=2x1}}, "
    "to_apply=add",
    "select and scatter": f"{X}{ZERO} u = f32[{LONG - 1},0] parameter(1)\n ROOT r = f32[{LONG},0] "
    "select-and-scatter(x, u, z), window={size=2x1}, select=less, scatter=add",
    "sort": f"{X} ROOT r = f32[{LONG},0] sort(x), dimensions={{1}}, to_apply=less",
    "top": f"{X} ROOT r = (f32[{LONG},0], s32[{LONG},0]) topk(x), k=0, largest=true",
    "scatter": f"{X} i = s32[1] constant({{0}})\n ROOT r = f32[{LONG},0] scatter(x, i, x), "
    "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=0, to_apply=add",
    "cholesky": f"y = f32[{LONG},0,0] parameter(0)\n ROOT r = f32[{LONG},0,0] cholesky(y), "
    "lower=true",
    "fft": f"y = c64[{LONG},0,4] parameter(0)\n ROOT r = c64[{LONG},0,4] fft(y), fft_type=FFT, "
    "fft_length={4}",
    "fft of another length": "y = c64[3,0] parameter(0)\n ROOT r = c64[3,0] fft(y), fft_type=FFT, "
    "fft_length={4}",
    "irfft to nothing": "y = c64[3,1] parameter(0)\n ROOT r = f32[3,0] fft(y), fft_type=IRFFT, "
    "fft_length={0}",
}


def module_of(body: str) -> lowtide.Module:
    needed = COMPUTATIONS if "to_apply" in body or "select=" in body else ""
    module = lowtide.parse_hlo(f"HloModule m\n{needed}ENTRY e {{\n {body}\n}}\n")
    lowtide.verify(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_made_of_nothing(name: str) -> None:
    module = module_of(CASES[name])
    arguments = [
        np.zeros(x.shape.dimensions, DTYPES[x.shape.element_type]) for x in module.entry.parameters
    ]
    result = lowtide.evaluate(module, arguments)
    leaves = result if isinstance(result, tuple) else (result,)
    shapes = [leaf for _, leaf in module.entry.root.shape.leaves()]
    for value, shape in zip(leaves, shapes, strict=True):
        assert value.shape == shape.dimensions
        assert value.dtype == DTYPES[shape.element_type]


def test_a_length_that_is_not_that_of_elements_is_an_error() -> None:
    with pytest.raises(lowtide.LowtideError, match="fft_length"):
        module_of(
            "y = c64[3,5] parameter(0)\n ROOT r = c64[3,5] fft(y), fft_type=FFT, fft_length={4}"
        )
