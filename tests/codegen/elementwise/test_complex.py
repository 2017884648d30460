"""Complex functions agree with the evaluator, and with C's rules for infinities."""

from fractions import Fraction

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS, Case, compiled, special_values

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode

TOLERANCE = {ElementType.C64: 1e-6, ElementType.C128: 1e-12}


@pytest.mark.parametrize("form", [("native", 16), ("avx2", 0)], ids=str)
@pytest.mark.parametrize("type_", TOLERANCE)
def test_complex_functions_are_near_the_evaluator(type_, form):
    target, lanes = form
    cases = oracle.cases(type_)
    assert {x.opcode for x in cases} >= oracle.written(type_)
    values = special_values(type_)
    smallest = np.minimum(np.abs(values.real), np.abs(values.imag))
    ordinary = (np.abs(values) == 0) | ((smallest == 0) | (smallest > 0.01))
    values = values[ordinary & ((np.abs(values) > 0.01) | (values == 0)) & (np.abs(values) < 80)]
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        arrays = (values,) if len(case.operands) == 1 else (a, b)
        got, want = run(*arrays), oracle.expected(case, arrays)
        if case.opcode is Opcode.ATAN2:  # on the branch cut either angle will do
            got, want = np.exp(1j * got), np.exp(1j * want)
        loose = case.opcode in (Opcode.POWER, Opcode.ATAN2)
        good = oracle.close(got, want, TOLERANCE[type_] * (10 if loose else 1), float(loose))
        good |= ~np.isfinite(want)  # NumPy's are not those of C in all its releases
        if case.opcode is Opcode.ATAN2:
            good |= _is_undecided(a, b)
        assert good.all(), oracle.report(case, good, arrays, got, want)


@pytest.mark.parametrize("type_", TOLERANCE)
def test_zeros_have_the_signs_by_which_a_branch_is_chosen(type_):
    steps = [0.3, 1.5, 2.5, 4.0, 7.0, 30.0]
    parts = [*steps, *[-x for x in steps], 0.0, -0.0]
    points = [(x, y) for x in parts for y in (0.0, -0.0)]
    values = np.zeros(2 * len(points), DTYPES[type_])
    values.real, values.imag = zip(*points, *[(y, x) for x, y in points], strict=True)
    cases = [x for x in oracle.cases(type_) if len(x.operands) == 1]
    cases = [x for x in cases if x.opcode is not Opcode.CBRT]  # HLO has it for real numbers only.
    for case, run in zip(cases, compiled(cases, TARGETS["native"], 0), strict=True):
        got, want = run(values), oracle.expected(case, (values,))
        for one, other in ((got.real, want.real), (got.imag, want.imag)):
            zero = (np.asarray(one) == 0) & (np.asarray(other) == 0)
            same = ~zero | (np.signbit(one) == np.signbit(other))
            assert same.all(), oracle.report(case, same, (values,), got, want)


@pytest.mark.parametrize("form", [("native", 16), ("avx2", 0)], ids=str)
@pytest.mark.parametrize("type_", TOLERANCE)
def test_what_is_not_finite_is_that_of_the_evaluator(type_, form):
    target, lanes = form
    parts = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]
    points = [(x, y) for x in parts for y in parts if not np.isfinite(x) or not np.isfinite(y)]
    values = np.zeros(len(points), DTYPES[type_])
    values.real, values.imag = zip(*points, strict=True)
    cases = [x for x in oracle.cases(type_) if len(x.operands) == 1]
    cases = [x for x in cases if x.opcode is not Opcode.CBRT]  # HLO has it for real numbers only.
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        got, want = run(values), oracle.expected(case, (values,))
        for one, other in ((got.real, want.real), (got.imag, want.imag)):
            same = np.isclose(one, other, rtol=1e-6, atol=0, equal_nan=True)
            assert same.all(), oracle.report(case, same, (values,), got, want)


def _is_undecided(y, x):
    """Where rounding decides: near poles, and where the square root is on its branch cut."""
    square = (x * x + y * y).astype(np.complex128)
    pole = np.abs(square) < 0.1 * (np.abs(x) + np.abs(y)) ** 2
    return pole | ((square.real < 0) & (np.abs(square.imag) < 1e-5 * np.abs(square)))


def test_complex_numbers_keep_infinities_of_exp_sqrt_and_division():
    inf, nan = np.inf, np.nan
    table = [
        (Opcode.EXPONENTIAL, (complex(-inf, 3),), complex(0, 0)),
        (Opcode.EXPONENTIAL, (complex(inf, 0),), complex(inf, 0)),
        (Opcode.EXPONENTIAL, (complex(709.9, 1.5707963267948966),), complex(1.23775e292, inf)),
        (Opcode.SQRT, (complex(-4, -0.0),), complex(0, -2)),
        (Opcode.SQRT, (complex(-inf, 1),), complex(0, inf)),
        (Opcode.SQRT, (complex(1e308, 1e308),), np.sqrt(complex(1e308, 1e308))),
        (Opcode.LOG, (complex(-0.0, -0.0),), complex(-inf, -np.pi)),
        (Opcode.LOG, (complex(0.6, 0.8),), np.log(complex(0.6, 0.8))),
        (Opcode.DIVIDE, (complex(1, 1), complex(0, 0)), complex(inf, inf)),
        (Opcode.DIVIDE, (complex(inf, nan), complex(2, 1)), complex(inf, -inf)),
        (Opcode.DIVIDE, (complex(2, 1), complex(inf, inf)), complex(0, -0.0)),
        (Opcode.DIVIDE, (complex(1e300, 1e300), complex(1e300, -1e300)), complex(0, 1)),
        (Opcode.TANH, (complex(400, 1),), complex(1, 0)),
    ]
    type_ = ElementType.C128
    kernels = [Case(opcode, (type_,) * len(given), type_) for opcode, given, _ in table]
    for (opcode, given, want), run in zip(
        table, compiled(kernels, TARGETS["native"], 0), strict=True
    ):
        (got,) = run(*[np.array([x]) for x in given])
        for a, b in ((got.real, want.real), (got.imag, want.imag)):
            assert a == b or abs(a - b) <= 1e-3 * abs(b) + 1e-300, (opcode, given, got)


INF, NAN, TURN = np.inf, np.nan, np.pi / 2
LARGEST, HALF_LARGEST = float(np.finfo(float).max), 710.5874318496011
ENDS = [
    (Opcode.EXPONENTIAL, complex(720, 1e-10), complex(INF, 4.920700930263815e302)),
    (Opcode.EXPONENTIAL, complex(1400, 3e-308), complex(INF, 3.085999982555968e300)),
    (Opcode.EXPONENTIAL, complex(INF, 3), complex(-INF, INF)),
    (Opcode.EXPONENTIAL, complex(-INF, NAN), 0j),
    (Opcode.LOGISTIC, complex(INF, NAN), 1 + 0j),
    (Opcode.LOG, complex(-1.79e308, -1.79e308), complex(710.1249978522986, -1.5 * TURN)),
    (Opcode.LOG, complex(1e-320, 1e-320), complex(-736.480667300694, TURN / 2)),
    (Opcode.LOG_PLUS_ONE, complex(1.79e308, 1.79e308), complex(710.1249978522986, TURN / 2)),
    (Opcode.LOG_PLUS_ONE, complex(1e-300, 2e-300), complex(1e-300, 2e-300)),
    (Opcode.LOG_PLUS_ONE, complex(0, 0.01), complex(4.9997500166654166e-05, 0.009999666686665238)),
    (Opcode.EXPONENTIAL_MINUS_ONE, complex(1000, 0), complex(INF, 0)),
    (Opcode.ATANH, complex(1.6e308, 1e300), complex(6.25e-309, TURN)),
    (Opcode.ATANH, complex(-INF, -2), complex(0, -TURN)),
    (Opcode.ATANH, complex(1, 1e-155), complex(178.7969182973185, TURN / 2)),
    (Opcode.ATANH, complex(-1, -5e-324), complex(-372.5666095509706, -TURN / 2)),
    (Opcode.ATANH, complex(1, 1e-150), complex(173.04045556483385, TURN / 2)),
    (Opcode.ATANH, complex(NAN, LARGEST), complex(NAN, NAN)),
    (Opcode.ATANH, complex(NAN, -1e200), complex(NAN, NAN)),
    (Opcode.ATANH, complex(NAN, INF), complex(0, TURN)),
    (Opcode.ASIN, complex(LARGEST, -LARGEST / 2), complex(1.1071487177940904, -HALF_LARGEST)),
    (Opcode.ACOS, complex(LARGEST, LARGEST / 2), complex(0.4636476090008061, -HALF_LARGEST)),
    (Opcode.ASINH, complex(LARGEST / 2, LARGEST), complex(HALF_LARGEST, 1.1071487177940904)),
    (Opcode.ACOSH, complex(LARGEST / 2, LARGEST), complex(HALF_LARGEST, 1.1071487177940904)),
    (Opcode.ACOSH, complex(-LARGEST, -LARGEST), complex(710.8224336642239, -1.5 * TURN)),
    (Opcode.ASIN, complex(INF, 0), complex(TURN, INF)),
    (Opcode.ASIN, complex(-INF, -INF), complex(-TURN / 2, -INF)),
    (Opcode.ACOS, complex(-INF, 1), complex(2 * TURN, -INF)),
    (Opcode.ACOS, complex(-INF, -INF), complex(1.5 * TURN, INF)),
    (Opcode.ACOS, complex(2, -INF), complex(TURN, INF)),
    (Opcode.ASINH, complex(-1, INF), complex(-INF, TURN)),
    (Opcode.ASINH, complex(-INF, 0), complex(-INF, 0)),
    (Opcode.ASINH, complex(-INF, NAN), complex(-INF, NAN)),
    (Opcode.ACOSH, complex(INF, -INF), complex(INF, -TURN / 2)),
    (Opcode.ACOSH, complex(NAN, INF), complex(INF, NAN)),
    (Opcode.LOG_PLUS_ONE, complex(-2, 0.001), complex(4.999997500001667e-07, 3.1405926539231266)),
    (Opcode.LOG_PLUS_ONE, complex(-2, 1e-80), complex(5e-161, np.pi)),
    (
        Opcode.LOG_PLUS_ONE,
        complex(-0.9999999999, 1),
        complex(5.000000827403744e-21, 1.5707963266948965),
    ),
    (Opcode.SIGN, complex(1.6e308, 1.6e308), complex(0.5**0.5, 0.5**0.5)),
    (Opcode.SIGN, complex(-1.5e308, 1e308), complex(-1.5, 1) / 3.25**0.5),
    (Opcode.SIGN, complex(5e-324, -5e-324), complex(0.5**0.5, -(0.5**0.5))),
    (Opcode.SIGN, complex(1e-321, INF), complex(0, NAN)),
    (Opcode.SIGN, complex(1.8, 5e-324), complex(1, 5e-324)),
    (Opcode.SQRT, complex(INF, NAN), complex(INF, NAN)),
    (Opcode.SQRT, complex(-INF, NAN), complex(NAN, INF)),
]
"""An argument beside an end of what doubles can be, and what is right to 15 digits."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("opcode", "given", "want"), ENDS)
def test_the_ends_of_complex_functions_are_right(opcode, given, want, target):
    type_ = ElementType.C128
    case = Case(opcode, (type_,), type_)
    (run,) = compiled([case], TARGETS[target], 0)
    for got in (run(np.array([given])), oracle.expected(case, (np.array([given]),))):
        for a, b in ((got.real[0], want.real), (got.imag[0], want.imag)):
            np.testing.assert_allclose(a, b, 1e-14, 0)


@pytest.mark.parametrize("target", TARGETS)
def test_signs_of_the_largest_and_least_floats_have_both_parts(target):
    given = np.array([3e38 + 3e38j, 1e-45 - 1e-45j, -0.0 + 3e38j], np.complex64)
    case = Case(Opcode.SIGN, (ElementType.C64,), ElementType.C64)
    (run,) = compiled([case], TARGETS[target], 0)
    for got in (run(given), oracle.expected(case, (given,))):
        np.testing.assert_allclose(got, np.sign(given.astype(np.complex128)), 1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", [ElementType.C64, ElementType.C128])
def test_log1p_next_to_its_circle_keeps_all_digits_of_the_real_part(type_, target):
    rng = np.random.default_rng(3)
    turn = rng.uniform(-np.pi, np.pi, 500) * 10.0 ** rng.choice([0, 0, -3, -8, -30, -60], 500)
    away = rng.choice([0, 1e-17, 1e-14, 1e-12, 1e-7], 500) * rng.normal(size=500)
    given = (-2 * np.sin(turn / 2) ** 2 + away + 1j * np.sin(turn)).astype(DTYPES[type_])
    given = given[(np.abs(given.imag) > 1e-38) & (np.abs(given.real) > 1e-38)]
    parts = [(Fraction(float(z.real)), Fraction(float(z.imag))) for z in given]
    want = np.array([np.log1p(float(x * (x + 2) + y * y)) / 2 for x, y in parts])
    case = Case(Opcode.LOG_PLUS_ONE, (type_,), type_)
    (run,) = compiled([case], TARGETS[target], 0)
    near = 1e-6 if type_ is ElementType.C64 else 1e-13
    for got in (run(given), oracle.expected(case, (given,))):
        np.testing.assert_allclose(got.real, want, near, 1e-44)


@pytest.mark.parametrize("type_", [ElementType.C64, ElementType.C128])
@pytest.mark.parametrize("opcode", [Opcode.TAN, Opcode.TANH])
def test_tangents_at_infinity_are_those_of_numpy(type_, opcode):
    inf, nan = np.inf, np.nan
    parts = [(inf, inf), (inf, -inf), (-inf, inf), (inf, nan), (-inf, 2), (inf, -0.0), (nan, 0)]
    parts += [(x, y) for x in (2, -19, 21, -89, 1e4) for y in (inf, -inf, nan)]
    given = np.array([complex(*x) for x in parts], DTYPES[type_])
    of = np.tanh
    if opcode is Opcode.TAN:
        given, of = np.array([complex(z.imag, z.real) for z in given], given.dtype), np.tan
    (run,) = compiled([Case(opcode, (type_,), type_)], TARGETS["native"], 0)
    got, want = run(given), of(given)
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        assert np.array_equal(a, b, equal_nan=True), (given, got, want)
