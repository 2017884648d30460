"""Operations on floating point types narrower than f32 round as the evaluator does."""

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS, compiled

from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode

NARROW = [x for x in oracle.ARRAY_TYPES if x.is_floating and x.bits < 32]

TOLERANCE = {ElementType.F16: 1.1e-3, ElementType.BF16: 8e-3}
"""Relative; other types are so coarse that results must be equal."""


@pytest.mark.parametrize("form", [("native", 16), ("avx2", 8)], ids=str)
@pytest.mark.parametrize("type_", NARROW)
def test_narrow_floats_round_as_the_evaluator(type_, form):
    target, lanes = form
    cases = oracle.cases(type_)
    assert {x.opcode for x in cases} >= oracle.written(type_)
    for case, run in zip(cases, compiled(cases, TARGETS[target], lanes), strict=True):
        arrays = oracle.operands(case)
        got, want = run(*arrays), oracle.expected(case, arrays)
        good = oracle.same_values(got, want, signs=type_ not in oracle.WITHOUT_NAN)
        if type_ in TOLERANCE:
            good |= oracle.close(got, want, TOLERANCE[type_], 1e-7)
        if type_ is ElementType.F8E8M0FNU and case.opcode is Opcode.POWER:
            good |= want.astype(np.float32) != want.astype(np.float32)  # just beyond the range
        assert good.all(), oracle.report(case, good, arrays, got, want)
