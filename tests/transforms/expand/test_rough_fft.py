"""Fourier transforms of lengths with large prime factors, written as convolutions."""

import numpy as np
import pytest

from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ir.attributes import Fft
from lowtide.transforms.expand.legalize import legalize
from lowtide.transforms.expand.rough_fft import (
    FEW_LINES,
    LEAST_LENGTH,
    MOST_IN_CACHES,
    MOST_LINES,
    smooth_length,
)

PRIME = 67
LONG_PRIME = 2053
assert LEAST_LENGTH < PRIME < MOST_IN_CACHES < LONG_PRIME


def _module(kind: str, lines: int, n: int, wide: bool = False):
    real, complex_ = ("f64", "c128") if wide else ("f32", "c64")
    half = n // 2 + 1
    types = {
        "FFT": (f"{complex_}[{lines},{n}]", f"{complex_}[{lines},{n}]"),
        "RFFT": (f"{real}[{lines},{n}]", f"{complex_}[{lines},{half}]"),
        "IRFFT": (f"{complex_}[{lines},{half}]", f"{real}[{lines},{n}]"),
    }
    given, made = types[kind.removeprefix("I") if kind == "IFFT" else kind]
    return parse_hlo(
        f"HloModule m\nENTRY e {{\n x = {given} parameter(0)\n"
        f" ROOT y = {made} fft(x), fft_type={kind}, fft_length={{{n}}}\n}}"
    )


def _lengths(module) -> list[int]:
    found = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FFT]
    return [x.attributes_as(Fft).length[0] for x in found]


def _argument(module, random):
    shape = module.entry.parameters[0].shape
    found = random.standard_normal(shape.dimensions)
    if not shape.element_type.is_complex:
        return found.astype(np.float32 if shape.element_type.bits == 32 else np.float64)
    found = found + 1j * random.standard_normal(shape.dimensions)
    return found.astype(np.complex64 if shape.element_type.bits == 64 else np.complex128)


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize(
    ("lines", "n", "wide"),
    [(1, PRIME, False), (3, 2 * PRIME, True), (9, LONG_PRIME, False), (2, 3 * PRIME, False)],
)
def test_rough_lengths_are_convolutions(kind, lines, n, wide):
    module = _module(kind, lines, n, wide)
    argument = _argument(module, np.random.default_rng(n))
    expected = np.asarray(evaluate(module, [argument]))
    assert legalize(module)
    assert _lengths(module) == [smooth_length(2 * n - 1)] * 2
    found = np.asarray(evaluate(module, [argument]))
    error = 1e-12 if wide else 2e-6
    assert np.abs(found - expected).max() <= error * np.abs(expected).max() * np.sqrt(n)


@pytest.mark.parametrize(
    ("lines", "n"),
    [
        *((1, 61), (1, 17 * 19 * 23), (1, 4096), (1, 0)),
        *((FEW_LINES + 1, PRIME), (MOST_LINES + 1, LONG_PRIME), (0, PRIME)),
    ],
    ids=["short", "small factors", "a power of two", "nothing", "many", "many long", "none"],
)
def test_other_lengths_stay(lines, n):
    module = _module("FFT", lines, n)
    assert legalize(module) == 0
    assert _lengths(module) == [n]


@pytest.mark.parametrize("least", [1, 2, 7, 133, 4105, 6397, 100003])
def test_lengths_are_smooth(least):
    found = rest = smooth_length(least)
    for prime in (2, 3, 5):
        while rest % prime == 0:
            rest //= prime
    assert rest == 1
    assert least <= found <= 2 * least
