"""Operations in place compute what they have to, whatever else reads what they overwrite."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native.comparing import compiled, flat, reference
from tests.native.in_place_programs import program

from lowtide import compiler
from lowtide.checking import check_plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments


def check(seed: int) -> None:
    text = program(seed)
    module = parse_hlo(text)
    plan = compiler.plan(parse_hlo(text))
    assert [str(x) for x in check_plan(plan.module, plan.assignment)] == [], text
    given = seeded_arguments(module, seed)
    expected = flat(reference(module, given))
    got = flat(compiled(module)(*[x.copy() for x in given]))
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert np.array_equal(a, b), (seed, number, text)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_values_are_right(first: int) -> None:
    for seed in range(first, first + 20):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 2_000, 100))
def test_many_values_are_right(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)


@pytest.mark.parametrize("layouts", ["000", "001", "011", "101", "111"])
@pytest.mark.parametrize("sizes", [(5, 7, 6), (40, 64, 33)])
def test_a_product_lies_as_its_shape_says(layouts: str, sizes: tuple[int, int, int]) -> None:
    left, right, result = ("{0,1}" if x == "1" else "{1,0}" for x in layouts)
    m, k, n = sizes
    text = f"""HloModule m, is_scheduled=true
ENTRY e {{
 p = f32[{m},{k}]{left} parameter(0)
 q = f32[{k},{n}]{right} parameter(1)
 ROOT d = f32[{m},{n}]{result} dot(p, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
    module = parse_hlo(text)
    given = seeded_arguments(module, 0)
    (got,), (expected,) = flat(compiled(module)(*given)), flat(reference(module, given))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
