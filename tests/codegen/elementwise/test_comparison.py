"""Comparison, selection and clamping of every type agree with the evaluator."""

import numpy as np
import pytest
from tests.codegen.elementwise import oracle
from tests.codegen.elementwise.kernels import TARGETS, Case, compiled, special_values

import lowtide
from lowtide.evaluator.comparison import compare
from lowtide.evaluator.numeric import narrow, widen
from lowtide.ir.attributes import Compare
from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import DTYPES
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


BYTES_WITH_ONE_NAN = {
    "f8e4m3b11fnuz": "lowest",
    "f8e4m3fnuz": "lowest",
    "f8e5m2fnuz": "lowest",
    "f8e8m0fnu": "highest",
}
"""Types whose one NaN has a sign, and where that puts it in the total order."""


@pytest.mark.parametrize("type_", BYTES_WITH_ONE_NAN)
def test_a_nan_without_a_choice_of_sign_has_one_place_in_the_total_order(type_):
    """Read from memory or just computed, compared or sorted, as for XLA:CPU."""
    module = lowtide.parse_hlo(f"""HloModule orders

less {{
  a = {type_}[] parameter(0)
  b = {type_}[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
}}

ENTRY e {{
  x = {type_}[256] parameter(0)
  y = f32[256] parameter(1)
  made = {type_}[256] convert(y)
  turned = f32[256] negate(y)
  other = {type_}[256] convert(turned)
  behind = pred[256] compare(x, made), direction=LT, type=TOTALORDER
  before = pred[256] compare(other, x), direction=LT, type=TOTALORDER
  sorted = {type_}[256] sort(x), dimensions={{0}}, to_apply=less
  ROOT r = ({type_}[256], pred[256], pred[256]) tuple(sorted, behind, before)
}}
""")
    bits = np.random.default_rng(1).permutation(256).astype(np.uint8)
    values = bits.view(DTYPES[ElementType(type_)])
    arguments = values, np.full(256, np.nan, np.float32)
    is_number = ~np.isnan(values.astype(np.float32))
    is_lowest = BYTES_WITH_ONE_NAN[type_] == "lowest"
    for order, behind, before in (
        lowtide.evaluate(module, arguments),
        lowtide.compile(module)(*arguments),
    ):
        assert np.isnan(order.astype(np.float32)[0 if is_lowest else -1])
        assert (np.asarray(behind) == (is_number & (not is_lowest))).all()
        assert (np.asarray(before) == (is_number & is_lowest)).all()


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
