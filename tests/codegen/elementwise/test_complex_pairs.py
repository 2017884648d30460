"""Complex operations of two numbers agree with the evaluator up to the ends of their types."""

from fractions import Fraction

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS, Case, compiled

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode

TYPES = [ElementType.C64, ElementType.C128]
NEAR = {ElementType.C64: 1e-6, ElementType.C128: 1e-13}


def _points(parts: list[float], type_: ElementType) -> np.ndarray:
    points = np.zeros(len(parts) ** 2, DTYPES[type_])
    points.real, points.imag = (x.ravel() for x in np.meshgrid(parts, parts))
    return points


def _run(opcode: Opcode, type_: ElementType, target: str, *arrays: np.ndarray) -> np.ndarray:
    (run,) = compiled([Case(opcode, (type_,) * len(arrays), type_)], TARGETS[target], 0)
    return run(*arrays)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("opcode", [Opcode.MULTIPLY, Opcode.DIVIDE, Opcode.ATAN2, Opcode.POWER])
def test_pairs_of_special_numbers_have_the_result_of_the_evaluator(opcode, type_, target):
    real = np.finfo(DTYPES[type_])
    parts = [0.0, real.tiny, 0.5, 3.0, real.max / 2, real.max, np.inf]
    points = _points([*parts, *[-x for x in parts], np.nan], type_)
    a, b = (x.ravel() for x in np.meshgrid(points, points))
    if opcode is Opcode.POWER:  # The angle of a larger power is a matter of rounding.
        small = ~((np.abs(b) > 3) & np.isfinite(b))
        a, b = a[small], b[small]
    case = Case(opcode, (type_, type_), type_)
    got, want = _run(opcode, type_, target, a, b), oracle.expected(case, (a, b))
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want.real), np.abs(want.imag))
        good = np.full(len(a), True)
        for x, y in ((got.real, want.real), (got.imag, want.imag)):
            near = np.abs(x / 2 - y / 2) <= 1e-5 * size
            good &= (x == y) | (np.isnan(x) & np.isnan(y)) | (near & np.isfinite(size))
    if opcode is Opcode.ATAN2:
        good |= b == -a * 1j  # At a pole: there is no angle.
        good |= (np.abs(got.real) > 3.1) & (np.abs(want.real) > 3.1)  # Half a turn has two signs.
    assert good.all(), oracle.report(case, good, (a, b), got, want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", TYPES)
def test_quotients_are_right_wherever_they_are_within_the_type(type_, target):
    real = np.finfo(DTYPES[type_])
    parts = [0.0, float(real.smallest_subnormal), float(real.tiny) * 0.7, 1.0, float(real.max)]
    points = _points([*parts, -parts[2], 1.7, -float(real.max) * 0.6], type_)
    a, b = (x.ravel() for x in np.meshgrid(points, points))
    a, b = a[b != 0], b[b != 0]
    want = np.array([_quotient(x, y) for x, y in zip(a, b, strict=True)])
    size = np.max(np.abs(want), axis=1)
    kept = (size < float(real.max)) & (size > float(real.tiny))
    case = Case(Opcode.DIVIDE, (type_, type_), type_)
    for got in (_run(Opcode.DIVIDE, type_, target, a, b), oracle.expected(case, (a, b))):
        off = np.maximum(np.abs(got.real - want[:, 0]), np.abs(got.imag - want[:, 1]))
        good = ~kept | (off <= NEAR[type_] * size)
        assert good.all(), oracle.report(case, good, (a, b), got, want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", TYPES)
def test_quotients_by_a_real_or_an_imaginary_number_have_both_parts(type_, target):
    real = np.finfo(DTYPES[type_])
    sizes = [real.max, real.max**0.5, 3.0, real.tiny**0.5, real.tiny]
    points = _points([float(x) * 0.7 for x in sizes], type_)
    ones = np.array([1, 1j, -3, 2.5j, sizes[1], sizes[3]], DTYPES[type_])
    a, b = (x.ravel() for x in np.meshgrid(points, ones))
    want = np.array([_quotient(x, y) for x, y in zip(a, b, strict=True)])
    case = Case(Opcode.DIVIDE, (type_, type_), type_)
    for got in (_run(Opcode.DIVIDE, type_, target, a, b), oracle.expected(case, (a, b))):
        good = np.full(len(a), True)
        for part, exact in ((got.real, want[:, 0]), (got.imag, want[:, 1])):
            kept = (np.abs(exact) < float(real.max)) & (np.abs(exact) > float(real.tiny))
            good &= ~kept | (np.abs(part - exact) <= NEAR[type_] * np.abs(exact))
        assert good.all(), oracle.report(case, good, (a, b), got, want)


def _quotient(a: complex, b: complex) -> tuple[float, float]:
    """The two parts as doubles, infinite where no double is near."""
    ar, ai, br, bi = (Fraction(float(x)) for x in (a.real, a.imag, b.real, b.imag))
    square = br * br + bi * bi
    return _double((ar * br + ai * bi) / square), _double((ai * br - ar * bi) / square)


def _double(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return np.inf if x > 0 else -np.inf


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", TYPES)
def test_roots_below_one_lie_on_the_other_side_of_the_axis(type_, target):
    given = _points([0.0, -0.0, 0.25, -0.25, 1e-30, -1e30], type_)
    given = given[given != 0]
    case = Case(Opcode.RSQRT, (type_,), type_)
    for got in (_run(Opcode.RSQRT, type_, target, given), oracle.expected(case, (given,))):
        assert (np.signbit(got.imag) != np.signbit(given.imag)).all()
        assert not np.signbit(got.real).any()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", TYPES)
def test_nothing_of_every_angle_keeps_the_signs_of_its_parts(type_, target):
    angles = np.array([0.3, 1.8, 3.5, 5.0, -0.3, -1.8, -3.5, -5.0])
    given = np.full(len(angles), -np.inf, DTYPES[type_])
    given.imag = angles
    case = Case(Opcode.EXPONENTIAL, (type_,), type_)
    for got in (_run(Opcode.EXPONENTIAL, type_, target, given), oracle.expected(case, (given,))):
        assert (got == 0).all()
        assert (np.signbit(got.real) == (np.cos(angles) < 0)).all()
        assert (np.signbit(got.imag) == (np.sin(angles) < 0)).all()
