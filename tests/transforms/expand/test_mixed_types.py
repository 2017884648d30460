"""Element-wise operations of several types: results are of the type that is wanted."""

from itertools import product

import numpy as np
import pytest

from lowtide.compiler import PlanOptions, scheduled
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InvalidModuleError
from lowtide.testing.check_pass import seeded_arguments
from lowtide.transforms.expand.legalize import legalize
from lowtide.verifier import verify

TEXT = """HloModule m
ENTRY e {{
  x = {given}[2,3]{{1,0}} parameter(0)
  y = {given}[2,3]{{1,0}} parameter(1)
  a = {middle}[2,3]{{1,0}} {inner}({operands})
  ROOT r = {result}[2,3]{{1,0}} {outer}(a)
}}
"""
INNER = {"negate": "x", "abs": "x", "add": "x, y", "multiply": "x, y", "complex": "x, y"}
TYPES = ("c64", "c128", "f32", "f64", "bf16")


def modules(outer):
    """All modules of two operations that HLO's rules allow."""
    for given, middle, result, inner in product(TYPES, TYPES, TYPES, INNER):
        words = {"given": given, "middle": middle, "result": result, "inner": inner}
        text = TEXT.format(**words, operands=INNER[inner], outer=outer)
        module = parse_hlo(text)
        try:
            verify(module)
        except InvalidModuleError:
            continue
        yield module


def digits_of(module):
    """The relative error of the narrowest type: a conversion there and back may be left out."""
    types = {x.shape.element_type.value for x in module.entry.instructions.values()}
    return 1e-2 if "bf16" in types else 1e-6 if types & {"f32", "c64"} else 1e-13


@pytest.mark.parametrize("outer", ["real", "imag", "abs", "negate", "floor", "sign"])
def test_two_operations_of_any_types(outer):
    tried = 0
    for module in modules(outer):
        made = scheduled(module, PlanOptions("scheduled"))
        verify(made)
        arguments = seeded_arguments(module, 1)
        got, expected = [np.asarray(evaluate(x, arguments)) for x in (made, module)]
        assert got.dtype == expected.dtype
        wide = np.result_type(expected.dtype, np.complex64)
        np.testing.assert_allclose(got.astype(wide), expected.astype(wide), digits_of(module))
        tried += 1
    assert tried > 20


def test_what_is_cut_off_on_the_way_is_cut_off():
    """Two signs turned are none, but what is a bf16 in between has no more digits."""
    text = TEXT.format(
        given="f32", middle="bf16", result="f32", inner="negate", operands="x", outer="negate"
    )
    made = scheduled(parse_hlo(text), PlanOptions("scheduled"))
    x = np.full((2, 3), 1.001, np.float32)
    np.testing.assert_array_equal(evaluate(made, [x, x]), np.ones((2, 3), np.float32))


def test_operations_of_one_type_stay():
    text = TEXT.format(
        given="f32", middle="f32", result="f32", inner="negate", operands="x", outer="floor"
    )
    module = parse_hlo(text)
    assert legalize(module) == 0
