"""Conversions between all types give what the evaluator gives; narrow types for all elements."""

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS, Case, compiled, special_values

from lowtide.evaluator.bits import bitcast_convert
from lowtide.evaluator.conversion import convert, reduce_precision, stochastic_convert
from lowtide.ir.attributes import ReducePrecision
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
from lowtide.ir.opcode import Opcode

FLOATS = [x for x in oracle.ARRAY_TYPES if x.is_floating]
FORMS = [("native", 16), ("avx2", 0)]


def _values(type_: ElementType) -> np.ndarray:
    """All elements of narrow types; of wide ones, those near the halves between narrow elements."""
    dtype = DTYPES[type_]
    if type_.bits == 16:
        return np.arange(1 << 16).astype(np.uint16).view(dtype)
    if not type_.is_floating or type_.bits < 32:
        return special_values(type_)
    rng = np.random.default_rng(0)
    narrow = [special_values(x).astype(dtype) for x in FLOATS]
    some = rng.standard_normal(2000) * 2.0 ** rng.integers(-30, 40, 2000)
    all_ = np.concatenate([*narrow, some.astype(dtype)])
    halves = [all_ * dtype.type(1 + 2.0**-n) for n in (1, 2, 3, 4, 5, 8, 9, 11, 12)]
    return np.concatenate([all_, *halves, halves[-1] * dtype.type(1 + 2.0**-20)])


def _agree(got: np.ndarray, want: np.ndarray, type_: ElementType) -> np.ndarray:
    if type_.is_complex:
        parts = zip((got.real, got.imag), (want.real, want.imag), strict=True)
        return np.all([oracle.same_values(a, b) for a, b in parts], axis=0)
    if type_.is_floating:
        return oracle.same_values(got, want)
    return oracle.same_bits(got, want)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("source", oracle.ARRAY_TYPES)
def test_conversions_have_the_values_of_the_evaluator(source, form):
    target, lanes = form
    types = [x for x in oracle.ARRAY_TYPES if x.is_complex or not source.is_complex]
    cases = [Case(Opcode.CONVERT, (source,), x) for x in types]
    values = _values(source)
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        got, want = run(values), convert(values, case.result)
        good = _agree(got, want, case.result)
        if case.result in oracle.WITHOUT_NAN and source.is_floating:
            good |= np.isnan(values.astype(np.float64)) & (got.astype(np.float32) == 0)
        assert good.all(), f"to {case.result}: " + oracle.report(case, good, (values,), got, want)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("source", [x for x in oracle.ARRAY_TYPES if x is not ElementType.PRED])
def test_bitcasts_keep_the_bits(source, form):
    target, lanes = form
    types = [x for x in oracle.ARRAY_TYPES if x.bits == source.bits and x is not ElementType.PRED]
    cases = [Case(Opcode.BITCAST_CONVERT, (source,), x) for x in types]
    values = _values(source)
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        got, want = run(values), bitcast_convert(values, case.result)
        good = oracle.same_bits(got, want)
        if ElementType.F16 in (source, case.result):  # conversion makes NaNs quiet
            good |= np.isnan(want.astype(np.float32)) | np.isnan(values.astype(np.float32))
        assert good.all(), f"to {case.result}: " + oracle.report(case, good, (values,), got, want)


@pytest.mark.parametrize("type_", FLOATS)
def test_reduce_precision(type_):
    sizes = [(e, m) for e in (2, 5, 8, 11) for m in (0, 2, 7, 10, 23)]
    cases = [Case(Opcode.REDUCE_PRECISION, (type_,), type_, ReducePrecision(*x)) for x in sizes]
    values = _values(type_)
    for target, lanes in FORMS:
        runs = compiled(cases, TARGETS[target], lanes)
        for size, case, run in zip(sizes, cases, runs, strict=True):
            got, want = run(values), reduce_precision(values, *size)
            good = oracle.same_values(got, want)
            assert good.all(), oracle.report(case, good, (values,), got, want)


RANDOM = {8: ElementType.U8, 16: ElementType.U16, 32: ElementType.U32, 64: ElementType.U64}


@pytest.mark.parametrize("source", [x for x in FLOATS if x.bits in RANDOM])
def test_stochastic_conversion(source):
    bits = RANDOM[source.bits]
    values = _values(source)
    random = np.random.default_rng(1).integers(0, 1 << 63, len(values), np.uint64)
    draw = (random >> np.uint64(63 - min(63, source.bits))).astype(DTYPES[bits])
    types = [ElementType.S8, ElementType.U16, ElementType.S32, ElementType.F16, ElementType.BF16]
    types += [ElementType.F32, ElementType.F8E5M2, ElementType.F8E4M3FN]
    cases = [Case(Opcode.STOCHASTIC_CONVERT, (source, bits), x) for x in types]
    for target, lanes in FORMS:
        for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
            got, want = run(values, draw), stochastic_convert(values, draw, case.result)
            good = _agree(got, want, case.result)
            assert good.all(), oracle.report(case, good, (values, draw), got, want)


def test_complex_parts_and_truth():
    c64, f32, pred = ElementType.C64, ElementType.F32, ElementType.PRED
    cases = [
        Case(Opcode.COMPLEX, (f32, f32), c64),
        Case(Opcode.CONVERT, (c64,), pred),
        Case(Opcode.BITCAST_CONVERT, (c64,), ElementType.S64),
        Case(Opcode.BITCAST_CONVERT, (ElementType.S64,), c64),
    ]
    make, truth, bits, back = compiled(cases, TARGETS["native"], 16)
    a = np.array([0, 1, 0, np.nan, -0.0], np.float32)
    b = np.array([0, 0, 2, 0, 0], np.float32)
    whole = make(a, b)
    assert oracle.same_bits(
        whole, np.array([0, 1, 2j, np.nan, complex(-0.0, 0)], np.complex64)
    ).all()
    assert truth(whole).tolist() == [False, True, True, True, False]
    assert (bits(whole) == whole.view(np.int64)).all()
    assert oracle.same_bits(back(bits(whole)), whole).all()
