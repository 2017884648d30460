"""Fourier transforms natively and by the evaluator."""

import numpy as np
import pytest
from tests.codegen.cpu.library.running import TARGETS, check, run

from lowtide.codegen.library.fft_form import factors_of, halves_of

CASES = [
    # shape, dimensions that are transformed
    ((1,), 1),
    ((5,), 1),
    ((3, 8), 1),
    ((40, 37), 1),  # a prime, by convolution
    ((7, 143), 1),
    ((40, 48), 1),
    ((1, 1000), 1),  # two shorter transforms
    ((2, 5000), 1),
    ((4, 6, 10), 2),
    ((3, 5, 7), 3),
    ((64, 20), 2),
    ((0, 4), 1),
]

PRECISIONS = {"c64": ("f32", np.complex64, 2e-6), "c128": ("f64", np.complex128, 1e-13)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", PRECISIONS)
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_transforms(kind, type_, target):
    real, dtype, tolerance = PRECISIONS[type_]
    random = np.random.default_rng(11)
    for shape, count in CASES:
        half = (*shape[:-1], shape[-1] // 2 + 1)
        given = half if kind == "IRFFT" else shape
        result = half if kind == "RFFT" else shape
        values = (random.standard_normal(given) + 1j * random.standard_normal(given)).astype(dtype)
        types = [real if kind == "RFFT" else type_, real if kind == "IRFFT" else type_]
        sizes = [",".join(map(str, x)) for x in (given, result, shape[len(shape) - count :])]
        text = f"""
HloModule m

ENTRY main {{
  x = {types[0]}[{sizes[0]}] parameter(0)
  ROOT y = {types[1]}[{sizes[1]}] fft(x), fft_type={kind}, fft_length={{{sizes[2]}}}
}}
"""
        inputs = [values.real.copy() if kind == "RFFT" else values]
        check(text, inputs, target, tolerance=tolerance)


def test_factors():
    assert factors_of(360) == [4, 2, 3, 3, 5]
    assert factors_of(34) is None
    assert halves_of(1000) == (25, 40)
    assert halves_of(17 * 17) is None


@pytest.mark.parametrize("size", [48, 35])
def test_a_line_does_no_harm_to_others(size):
    values = np.random.default_rng(12).standard_normal((5, size)).astype(np.float32)
    values[1] *= 1e30
    values[3, 2] = np.nan
    text = f"""
HloModule m

ENTRY main {{
  x = f32[5,{size}] parameter(0)
  ROOT y = c64[5,{size // 2 + 1}] fft(x), fft_type=RFFT, fft_length={{{size}}}
}}
"""
    (found,) = run(text, [values])
    wanted = np.fft.rfft(values)
    for row in (0, 2, 4):
        np.testing.assert_allclose(found[row], wanted[row], rtol=0, atol=1e-4)
    assert np.isnan(found[3]).all()
