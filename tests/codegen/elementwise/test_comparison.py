"""Comparison, selection and clamping of every type agree with the evaluator."""

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS, Case, compiled, special_values

from lowtide.evaluator.comparison import compare
from lowtide.evaluator.numeric import narrow, widen
from lowtide.ir.attributes import Compare
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode


@pytest.mark.parametrize("type_", oracle.ARRAY_TYPES)
def test_comparisons_agree_by_value_and_in_the_total_order(type_):
    directions = ["EQ", "NE"] if type_.is_complex else ["EQ", "NE", "GE", "GT", "LE", "LT"]
    orders = ["FLOAT", "TOTALORDER"] if type_.is_floating else ["SIGNED"]
    kinds = [(direction, order) for direction in directions for order in orders]
    cases = [
        Case(Opcode.COMPARE, (type_, type_), ElementType.PRED, Compare(*kind)) for kind in kinds
    ]
    arrays = oracle.operands(cases[0])
    for form in (("native", 16), ("avx2", 0)):
        target, lanes = form
        runs = compiled(cases, TARGETS[target], lanes)
        for (direction, order), case, run in zip(kinds, cases, runs, strict=True):
            want = compare(direction, *arrays, total_order=order == "TOTALORDER")
            got = run(*arrays)
            assert (got == want).all(), oracle.report(case, got == want, arrays, got, want)


@pytest.mark.parametrize("type_", oracle.ARRAY_TYPES)
def test_select_and_clamp(type_):
    case = Case(Opcode.SELECT, (ElementType.PRED, type_, type_), type_)
    values = special_values(type_)
    choice = np.arange(len(values)) % 3 == 0
    other = np.roll(values, 1)
    (run,) = compiled([case], TARGETS["native"], 16)
    assert oracle.same_bits(run(choice, values, other), np.where(choice, values, other)).all()
    if type_ is ElementType.PRED:
        return
    case = Case(Opcode.CLAMP, (type_, type_, type_), type_)
    low, high = np.roll(values, 5), np.roll(values, 11)
    for target, lanes in (("native", 16), ("avx2", 0)):
        (run,) = compiled([case], TARGETS[target], lanes)
        wide = [widen(x) for x in (low, values, high)]
        want = narrow(np.minimum(np.maximum(wide[1], wide[0]), wide[2]), type_)
        got = run(low, values, high)
        good = got == want if not type_.is_floating else oracle.same_values(got, want, signs=False)
        if type_.is_complex:
            good |= np.isnan(got) & np.isnan(want)
        assert good.all(), oracle.report(case, good, (low, values, high), got, want)
