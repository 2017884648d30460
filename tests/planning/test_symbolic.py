"""Sizes with variables: equality and bounds, against evaluation."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.planning.symbolic import constant, parse_size, upper_bound

EXPRESSIONS = st.recursive(
    st.sampled_from(["n", "m", "0", "1", "2", "5", "(-3)"]),
    lambda part: st.one_of(
        st.builds("({} {} {})".format, part, st.sampled_from(["+", "-", "*", "//", "%"]), part),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), part, part),
    ),
    max_leaves=6,
)


def _values(text: str, largest: dict[str, int]) -> dict[tuple[int, int], int]:
    """The values of an expression by (n, m), without those where it divides by zero."""
    found = {}
    for n, m in product(range(largest["n"] + 1), range(largest["m"] + 1)):
        names: dict[str, Any] = {"n": n, "m": m, "min": min, "max": max}
        try:
            found[n, m] = eval(text, {"__builtins__": {}}, names)
        except ZeroDivisionError:
            continue
    return found


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, st.integers(0, 6), st.integers(0, 6))
def test_bounds_hold_for_every_value(text: str, n: int, m: int) -> None:
    bound = upper_bound(text, {"n": n, "m": m}).value
    if bound is not None:
        assert max(_values(text, {"n": n, "m": m}).values(), default=bound) <= bound


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_equal_sizes_have_equal_values(one: str, two: str) -> None:
    largest = {"n": 4, "m": 4}
    if parse_size(one) == parse_size(two):
        ones, twos = _values(one, largest), _values(two, largest)
        assert all(ones[at] == twos[at] for at in ones.keys() & twos.keys())
        assert hash(parse_size(one)) == hash(parse_size(two))


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("n * 3 + 2", 32),
        ("(n + 1) * (n - 1)", 99),
        ("n // 3", 3),
        ("n % 4", 3),
        ("max(n, 20) - min(n, 3)", 20),
        ("-n", 0),
        ("m % 4", 3),
        ("min(m, n)", 10),
        ("m - m", 0),
        ("m * 0", 0),
        ("m", None),
        ("m * n", None),
        ("max(m, 3)", None),
        ("n // m", None),
    ],
)
def test_bounds(text: str, bound: int | None) -> None:
    assert upper_bound(text, {"n": 10}).value == bound


def test_sums_and_products_are_worked_out() -> None:
    assert parse_size("(n + 1) * (n + 1) - 1") == parse_size("n * n + 2 * n")
    assert parse_size("(n + 1) // 2") == parse_size("(n+1)//2") != parse_size("(1 + n) // 2")
    assert str(parse_size("3 * m * n + 2")) == "2 + 3 * m * n"
    assert parse_size(7) == constant(7)


@pytest.mark.parametrize("text", ["n &", "n & 3", "f(n)", "n.x", "1.5", "max()", "n / 2", ""])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)
