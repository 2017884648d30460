"""Fourier transforms on the emulator beside the evaluator."""

from __future__ import annotations

import pytest
from tests.codegen.gpu.programs import check

CASES = {
    "mixed radices": ("c64[4,60]", "c64[4,60]", "FFT", "60"),
    "many lines of a block": ("c64[70,16]", "c64[70,16]", "IFFT", "16"),
    "wide numbers": ("c128[3,1000]", "c128[3,1000]", "IFFT", "1000"),
    "real, even": ("f32[5,48]", "c64[5,25]", "RFFT", "48"),
    "real, odd": ("f64[5,45]", "c128[5,23]", "RFFT", "45"),
    "to real, even": ("c64[5,25]", "f32[5,48]", "IRFFT", "48"),
    "to real, odd": ("c64[5,23]", "f32[5,45]", "IRFFT", "45"),
    "two dimensions": ("c64[2,12,20]", "c64[2,12,20]", "FFT", "12,20"),
    "three, real": ("f32[4,6,10,8]", "c64[4,6,10,5]", "RFFT", "6,10,8"),
    "three, to real": ("c64[4,6,10,5]", "f32[4,6,10,8]", "IRFFT", "6,10,8"),
    "nothing to do": ("c64[3,1]", "c64[3,1]", "FFT", "1"),
}


def run(operand: str, result: str, kind: str, length: str) -> tuple[str, int]:
    """Return the template, and how many launches there are."""
    (kernel,) = check(
        f"  x = {operand} parameter(0)\n"
        f"  ROOT f = {result} fft(x), fft_type={kind}, fft_length={{{length}}}\n",
        2e-6,
    ).kernels
    return kernel.template, len(kernel.launches)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_transforms_of_each_kind(case: tuple[str, str, str, str]) -> None:
    assert run(*case) == ("fourier", case[3].count(",") + 1)


@pytest.mark.parametrize(
    "case",
    [
        ("c64[2,8192]", "c64[2,8192]", "FFT", "8192"),
        ("f32[1,9000]", "c64[1,4501]", "RFFT", "9000"),
        ("c128[1,4096]", "c128[1,4096]", "IFFT", "4096"),
    ],
)
def test_long_lines_take_two_launches(case: tuple[str, str, str, str]) -> None:
    assert run(*case) == ("fourier", 2)


def test_lengths_with_large_prime_factors_are_pieces_of_work() -> None:
    assert run("c64[3,58]", "c64[3,58]", "FFT", "58") == ("units", 1)
