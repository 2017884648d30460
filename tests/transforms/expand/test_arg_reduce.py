"""Reductions to a place: the same place as before, and others that are left alone."""

from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.evaluator import evaluate
from lowtide.ir import Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.element_type import BY_KEYWORD
from lowtide.ir.literal import DTYPES, Array
from lowtide.passes.registry import passes
from lowtide.testing.check_rule import leaves, module_of

# {0}: the type of the elements, {1} that of the places, {2}: GT, GE, LT or LE
BY_NAN = """choose {{ a = {0}[] parameter(0)
  i = {1}[] parameter(1)
  b = {0}[] parameter(2)
  j = {1}[] parameter(3)
  more = pred[] compare(a, b), direction={2}
  is_nan = pred[] compare(a, a), direction=NE
  first = pred[] or(more, is_nan)
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tied = pred[] and(equal, before)
  which = pred[] or(first, tied)
  value = {0}[] select(first, a, b)
  place = {1}[] select(which, i, j)
  ROOT r = ({0}[], {1}[]) tuple(value, place) }}"""
PLAIN = """choose {{ a = {0}[] parameter(0)
  i = {1}[] parameter(1)
  b = {0}[] parameter(2)
  j = {1}[] parameter(3)
  first = pred[] compare(a, b), direction={2}
  value = {0}[] select(first, a, b)
  place = {1}[] select(first, i, j)
  ROOT r = ({0}[], {1}[]) tuple(value, place) }}"""

# {3}: maximum or minimum; with NaN on either side the second place is taken
BY_EXTREMUM = """choose {{ a = {0}[] parameter(0)
  i = {1}[] parameter(1)
  b = {0}[] parameter(2)
  j = {1}[] parameter(3)
  value = {0}[] {3}(a, b)
  first = pred[] compare(a, b), direction={2}
  place = {1}[] select(first, i, j)
  ROOT r = ({0}[], {1}[]) tuple(value, place) }}"""


def body(kind: str, place: str, start: str, dimension: int, places: str = "") -> str:
    iota = places or f"p = {place}[3,7,5] iota(), iota_dimension={dimension}"
    kept = ",".join([str(n) for i, n in enumerate((3, 7, 5)) if i != dimension])
    return f"""x = {kind}[3,7,5] parameter(0)
      {iota}
      s = {kind}[] constant({start})
      z = {place}[] constant(0)
      y = ({kind}[{kept}], {place}[{kept}]) reduce(x, p, s, z), dimensions={{{dimension}}}, """ + (
        "to_apply=choose"
    )


def elements(kind: str, seed: int) -> Array:
    """A few different numbers, so that many are equal; rows of NaN and infinity."""
    dtype = DTYPES[BY_KEYWORD[kind]]
    made = np.random.default_rng(seed).integers(0, 4, (3, 7, 5)).astype(dtype)
    if kind in ("f32", "bf16", "f16"):
        made[0, 2:4, 1] = np.nan
        made[1, :, 2] = -np.inf
        made[2, 1, :] = np.inf
    return made


def same(before: lowtide.Module, after: lowtide.Module, given: Array) -> None:
    with np.errstate(invalid="ignore"):
        pairs = zip(*[leaves(evaluate(x, [given])) for x in (before, after)], strict=True)
    for expected, got in pairs:
        assert expected.dtype == got.dtype
        np.testing.assert_array_equal(expected.astype(float), got.astype(float))


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize(("how", "start"), [("GT", "-inf"), ("LT", "inf")])
def test_places_of_numbers(kind: str, dimension: int, how: str, start: str) -> None:
    computation = BY_NAN.format(kind, "s32", how)
    before, after = expanded_with(body(kind, "s32", start, dimension), computation)
    assert all(len(x.operands) < 3 for x in after.entry.instructions.values() if is_reduce(x))
    for seed in range(3):
        same(before, after, elements(kind, seed))


@pytest.mark.parametrize(
    ("kind", "end"),
    [("f8e5m2", "inf"), ("f8e4m3fn", "448"), ("f8e5m2fnuz", "57344"), ("f8e3m4", "inf")],
)
@pytest.mark.parametrize(("how", "sign"), [("GT", "-"), ("LT", "")])
def test_places_of_numbers_of_eight_bits(kind: str, end: str, how: str, sign: str) -> None:
    computation = BY_NAN.format(kind, "s32", how)
    before, after = expanded_with(body(kind, "s32", sign + end, 1), computation)
    assert all(len(x.operands) < 3 for x in after.entry.instructions.values() if is_reduce(x))
    given = elements(kind, 0)
    given[0, 2:4, 1] = np.nan
    given[1, :, 2] = np.asarray(float(sign + end)).astype(given.dtype)
    same(before, after, given)


@pytest.mark.parametrize("kind", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize(
    ("how", "start", "best"), [("GE", "-inf", "maximum"), ("LE", "inf", "minimum")]
)
def test_places_by_what_is_greater(
    kind: str, dimension: int, how: str, start: str, best: str
) -> None:
    computation = BY_EXTREMUM.format(kind, "s32", how, best)
    before, after = expanded_with(body(kind, "s32", start, dimension), computation)
    assert all(len(x.operands) < 3 for x in after.entry.instructions.values() if is_reduce(x))
    for seed in range(3):
        given = elements(kind, seed)
        for place in ((0, 0, 0), (1, -1, 3), (2, 6, 4), (0, 3, 2)):
            given[place] = np.nan
            same(before, after, given)


@pytest.mark.parametrize(
    ("kind", "place", "how", "start"),
    [
        ("s32", "s32", "GE", "-2147483648"),
        ("u8", "u32", "GE", "0"),
        ("s8", "s64", "LE", "127"),
        ("u16", "s8", "LE", "65535"),
    ],
)
def test_places_of_integers(kind: str, place: str, how: str, start: str) -> None:
    computation = PLAIN.format(kind, place, how)
    before, after = expanded_with(body(kind, place, start, 1), computation)
    same(before, after, elements(kind, 0))


def test_an_iota_in_a_broadcast() -> None:
    places = "q = s32[7] iota(), iota_dimension=0\n p = s32[3,7,5] broadcast(q), dimensions={1}"
    lines = body("f32", "s32", "-inf", 1, places)
    before, after = expanded_with(lines, BY_NAN.format("f32", "s32", "GT"))
    same(before, after, elements("f32", 0))


OTHERS = {
    "numbers without a rule for NaN": (body("f32", "s32", "-inf", 1), PLAIN, "f32", "GE"),
    "the last of equal ones": (body("s32", "s32", "-2147483648", 1), PLAIN, "s32", "GT"),
    "another start": (body("f32", "s32", "0", 1), BY_NAN, "f32", "GT"),
    "the wrong start": (body("f32", "s32", "inf", 1), BY_NAN, "f32", "GT"),
    "another dimension": (
        body("f32", "s32", "-inf", 1, "p = s32[3,7,5] iota(), iota_dimension=2"),
        BY_NAN,
        "f32",
        "GT",
    ),
    "places that are given": (
        body("f32", "s32", "-inf", 1, "p = s32[3,7,5] parameter(1)"),
        BY_NAN,
        "f32",
        "GT",
    ),
    "the least by what is greater": (
        body("f32", "s32", "-inf", 1),
        BY_EXTREMUM.replace("{3}", "maximum"),
        "f32",
        "LE",
    ),
    "the last of equal maxima": (
        body("f32", "s32", "-inf", 1),
        BY_EXTREMUM.replace("{3}", "maximum"),
        "f32",
        "GT",
    ),
    "equal or not": (body("s32", "s32", "-2147483648", 1), PLAIN, "s32", "NE"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays(name: str) -> None:
    lines, computation, kind, how = OTHERS[name]
    module = module_of(lines, computation.format(kind, "s32", how))
    assert passes()["expand-arg-reduce"].run(module) == 0


def expanded_with(lines: str, computation: str) -> tuple[lowtide.Module, lowtide.Module]:
    module = module_of(lines, computation)
    before = clone_module(module)
    assert passes()["expand-arg-reduce"].run(module)
    assert passes()["expand-arg-reduce"].run(module) == 0
    return before, module


def is_reduce(x: Any) -> bool:
    return x.opcode is Opcode.REDUCE
