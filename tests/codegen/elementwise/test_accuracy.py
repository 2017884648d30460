"""Errors are within the bounds that `accuracy.py` states."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from tests.codegen.elementwise.accuracy import DOUBLE, SINGLE
from tests.codegen.elementwise.kernels import TARGETS, Case, compiled

from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode

wide = np.longdouble
extended = pytest.mark.skipif(
    np.finfo(wide).nmant < 63, reason="long double is no wider than double here"
)

EXACT = {
    Opcode.ACOS: np.arccos,
    Opcode.ACOSH: np.arccosh,
    Opcode.ASIN: np.arcsin,
    Opcode.ASINH: np.arcsinh,
    Opcode.ATANH: np.arctanh,
    Opcode.CBRT: np.cbrt,
    Opcode.COSH: np.cosh,
    Opcode.COSINE: np.cos,
    Opcode.ERF: np.vectorize(math.erf, otypes=[np.float64]),
    Opcode.EXPONENTIAL: np.exp,
    Opcode.EXPONENTIAL_MINUS_ONE: np.expm1,
    Opcode.LOG: np.log,
    Opcode.LOG_PLUS_ONE: np.log1p,
    Opcode.LOGISTIC: lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))),
    Opcode.RSQRT: lambda x: 1 / np.sqrt(x),
    Opcode.SINE: np.sin,
    Opcode.SINH: np.sinh,
    Opcode.TAN: np.tan,
    Opcode.TANH: np.tanh,
}
PAIRS = {Opcode.ATAN2: np.arctan2, Opcode.POWER: np.power}
FORMS = [("native", 16), ("avx2", 8)]


def _error(got: np.ndarray, want: np.ndarray) -> float:
    """The greatest error in units of the last place; infinite where one of both is not finite."""
    info = np.finfo(got.dtype)
    short = np.clip(np.abs(want), info.tiny, info.max).astype(got.dtype)
    finite = np.isfinite(got) & (np.abs(want) <= info.max)
    beyond = np.abs(want) > info.max
    if not (finite | (np.isnan(got) & np.isnan(want)) | (beyond & np.isinf(got))).all():
        return math.inf
    unit = np.spacing(short).astype(want.dtype)
    return float(np.max(np.abs(got.astype(want.dtype) - want)[finite] / unit[finite], initial=0))


def _bits(start: int, count: int, stride: int) -> np.ndarray:
    numbers = start + np.arange(count, dtype=np.uint64) * np.uint64(stride)
    return numbers.astype(np.uint32).view(np.float32)


def _single(opcodes, target: str, lanes: int):
    cases = [Case(x, (ElementType.F32,), ElementType.F32) for x in opcodes]
    return zip(opcodes, compiled(cases, TARGETS[target], lanes), strict=True)


def test_every_bound_is_tested():
    assert set(SINGLE) == set(DOUBLE) == {*EXACT, *PAIRS}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_f32_functions_on_a_sample_of_all_floats(form):
    for opcode, run in _single(list(EXACT), *form):
        stride = 60013 if opcode is not Opcode.ERF else 600011
        x = _bits(7, (1 << 32) // stride, stride)
        error = _error(run(x), EXACT[opcode](x.astype(np.float64)))
        assert error <= SINGLE[opcode], f"{opcode.value}: {error} ulp"


@pytest.mark.slow
@pytest.mark.parametrize("opcode", list(EXACT))
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_f32_functions_on_all_floats(form, opcode):
    ((_, run),) = _single([opcode], *form)
    step = 1 << 17  # what stays in the cache
    for start in range(0, 1 << 32, step):
        x = _bits(start, step, 1)
        x = x[np.abs(x) < 4.5] if opcode is Opcode.ERF else x  # beyond it is 1, and slow to check
        error = _error(run(x), EXACT[opcode](x.astype(np.float64)))
        assert error <= SINGLE[opcode], f"{opcode.value}: {error} ulp from bits {start:#x} on"


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_f32_functions_of_two_operands(form):
    target, lanes = form
    cases = [Case(x, (ElementType.F32,) * 2, ElementType.F32) for x in PAIRS]
    rng = np.random.default_rng(5)
    a = _bits(11, 60000, 71579)
    b = rng.permutation(a)
    c = (1 + rng.uniform(-1e-3, 1e-3, 60000)).astype(np.float32)
    d = rng.uniform(-9e4, 9e4, 60000).astype(np.float32)
    e, f = rng.uniform(0, 4, (2, 60000)).astype(np.float32)
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        for x, y in ((a, b), (c, d), (e, f)):
            want = PAIRS[case.opcode](x.astype(np.float64), y.astype(np.float64))
            error = _error(run(x, y), want)
            assert error <= SINGLE[case.opcode], f"{case.opcode.value}: {error} ulp"


def _doubles(opcode: Opcode) -> np.ndarray:
    """Numbers of all sizes, and many where functions bend."""
    rng = np.random.default_rng(9)
    all_ = rng.integers(0, 1 << 63, 20000, np.uint64).view(np.float64)
    near = [rng.uniform(-1, 1, 10000) * 2.0**n for n in (-20, -3, 0, 2, 6, 10, 20, 40)]
    return np.concatenate([all_, -all_, *near, 1 + near[0], 1 + near[1]])


@extended
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_f64_functions_on_numbers_of_all_sizes(form):
    target, lanes = form
    opcodes = [x for x in EXACT if x is not Opcode.ERF]
    cases = [Case(x, (ElementType.F64,), ElementType.F64) for x in opcodes]
    for opcode, run in zip(opcodes, compiled(cases, TARGETS[target], lanes), strict=True):
        x = _doubles(opcode)
        error = _error(run(x), EXACT[opcode](x.astype(wide)))
        assert error <= DOUBLE[opcode], f"{opcode.value}: {error} ulp"


@extended
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_f64_functions_of_two_operands(form):
    target, lanes = form
    cases = [Case(x, (ElementType.F64,) * 2, ElementType.F64) for x in PAIRS]
    rng = np.random.default_rng(6)
    near, far = 1 + rng.uniform(-1e-3, 1e-3, 20000), rng.uniform(-6e5, 6e5, 20000)
    x = np.concatenate([near, rng.uniform(0, 3, 20000), _doubles(Opcode.POWER)])
    y = np.concatenate([far, rng.uniform(-600, 600, 20000), rng.permutation(x[40000:])])
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        error = _error(run(x, y), PAIRS[case.opcode](x.astype(wide), y.astype(wide)))
        assert error <= DOUBLE[case.opcode], f"{case.opcode.value}: {error} ulp"


def _erf(x: float) -> Decimal:
    """The series of erf in 60 digits, for magnitudes up to 6."""
    with localcontext() as context:
        context.prec = 60
        z = Decimal(x)
        term, total, n = z, z, 0
        while abs(term) > Decimal(10) ** -45:
            n += 1
            term = -term * z * z / n
            total += term / (2 * n + 1)
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
        return total * 2 / pi.sqrt()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_f64_erf_against_its_series(form):
    target, lanes = form
    case = Case(Opcode.ERF, (ElementType.F64,), ElementType.F64)
    (run,) = compiled([case], TARGETS[target], lanes)
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-1.2, 1.2, 300), rng.uniform(-5.9, 5.9, 150), [1e-300, 0.999]])
    for given, got in zip(x.tolist(), run(x).tolist(), strict=True):
        want = _erf(given)
        error = float(abs(Decimal(got) - want) / Decimal(math.ulp(float(want))))
        assert error <= DOUBLE[Opcode.ERF], f"{error} ulp at {given}"
