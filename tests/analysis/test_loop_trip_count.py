"""How often loops run, against running them."""

import itertools
import random

import pytest

import lowtide
from lowtide.analysis.loop_trip_count import TripCount, loop_counter, trip_count
from lowtide.ir import Instruction, Opcode

COMPARISONS = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


def counted(condition: str, following: str, start: str, kind: str = "s32") -> TripCount | None:
    """Return the trip count of a loop over one number, given the lines of its computations."""
    return trip_count(the_loop(condition, following, start, kind))


def the_loop(
    condition: str, following: str, start: str, kind: str = "s32", limit: str = "constant(7)"
) -> Instruction:
    """Return a loop over one number, given the lines of its computations."""
    text = f"""
HloModule m

condition {{
  c = ({kind}[], {kind}[]) parameter(0)
  i = {kind}[] get-tuple-element(c), index=0
  k = {kind}[] get-tuple-element(c), index=1
  {condition}
}}

body {{
  b = ({kind}[], {kind}[]) parameter(0)
  i.1 = {kind}[] get-tuple-element(b), index=0
  k.1 = {kind}[] get-tuple-element(b), index=1
  {following}
  ROOT r = ({kind}[], {kind}[]) tuple(next, k.1)
}}

ENTRY main {{
  given = {kind}[] parameter(0)
  first = {kind}[] {start}
  seven = {kind}[] {limit}
  start = ({kind}[], {kind}[]) tuple(first, seven)
  ROOT loop = ({kind}[], {kind}[]) while(start), condition=condition, body=body
}}
"""
    entry = lowtide.parse_hlo(text).entry
    assert entry.root.opcode is Opcode.WHILE
    return entry.root


def run(kind: str, start: int, step: int, limit: int, direction: str) -> tuple[int | None, bool]:
    """Return how often a loop over 8-bit numbers runs, and whether its counter wraps around."""
    low, high = (-128, 127) if kind == "s8" else (0, 255)
    wrapped = False
    for count in range(257):
        if not COMPARISONS[direction](start, limit):
            return count, wrapped
        start += step
        wrapped |= not low <= start <= high
        start = (start - low) % 256 + low
    return None, wrapped


def test_formulas_agree_with_running_the_loop() -> None:
    choices = random.Random(0)
    found = 0
    for _ in range(600):
        kind = choices.choice(["s8", "u8"])
        low, high = (-128, 127) if kind == "s8" else (0, 255)
        start, limit = [choices.choice([low, high, choices.randint(low, high)]) for _ in range(2)]
        step = choices.choice([-3, -2, -1, 1, 2, 5, 100])
        direction, swapped = choices.choice(list(COMPARISONS)), choices.random() < 0.5
        flipped = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, direction)
        operands = "n, i" if swapped else "i, n"
        operation = "add" if step > 0 else "subtract"
        result = counted(
            f"n = {kind}[] constant({limit})\n  ROOT more = pred[] compare({operands}), "
            f"direction={flipped if swapped else direction}",
            f"one = {kind}[] constant({abs(step)})\n  next = {kind}[] {operation}(i.1, one)",
            f"constant({start})",
            kind,
        )
        expected, wrapped = run(kind, start, step, limit, direction)
        assert (result and result.count) == expected
        if result is not None:
            assert (result.induction is None) == wrapped
            found += not wrapped
    assert found > 200


@pytest.mark.parametrize(
    ("condition", "following", "count"),
    [
        # The bound is an element that stays 7.
        ("ROOT m = pred[] compare(i, k), direction=LT", "next = s32[] add(i.1, k.1)", 1),
        # Neither a comparison of the counter itself, nor a constant step.
        (
            "two = s32[] constant(2)\n  d = s32[] multiply(i, two)\n"
            "  ROOT m = pred[] compare(d, k), direction=LT",
            "one = s32[] constant(1)\n  next = s32[] add(i.1, one)",
            4,
        ),
        (
            "n = s32[] constant(100)\n  ROOT m = pred[] compare(i, n), direction=LT",
            "one = s32[] constant(1)\n  o = s32[] add(i.1, one)\n  next = s32[] add(o, i.1)",
            7,
        ),
        (
            "n = s32[] constant(5)\n  a = pred[] compare(i, n), direction=LT\n"
            "  b2 = pred[] compare(i, k), direction=NE\n  ROOT m = pred[] and(a, b2)",
            "one = s32[] constant(1)\n  next = s32[] add(i.1, one)",
            5,
        ),
        # It goes on for ever, or too long to try out.
        ("ROOT m = pred[] compare(i, k), direction=LT", "next = s32[] copy(i.1)", None),
        (
            "n = s32[] constant(5000)\n  m2 = s32[] maximum(i, i)\n"
            "  ROOT m = pred[] compare(m2, n), direction=LT",
            "one = s32[] constant(1)\n  next = s32[] add(i.1, one)",
            None,
        ),
    ],
)
def test_loops_without_a_formula_are_tried_out(
    condition: str, following: str, count: int | None
) -> None:
    result = counted(condition, following, "constant(0)")
    assert (result and result.count) == count


def test_nothing_is_known_of_a_start_that_is_not_constant() -> None:
    condition = "ROOT m = pred[] compare(i, k), direction=LT"
    following = "one = s32[] constant(1)\n  next = s32[] add(i.1, one)"
    assert counted(condition, following, "negate(given)") is None


def test_the_induction_variable_is_named_with_its_last_value() -> None:
    result = counted(
        "ROOT m = pred[] compare(i, k), direction=LE",
        "three = s32[] constant(3)\n  next = s32[] add(three, i.1)",
        "constant(-2)",
    )
    assert result == TripCount(count=4, induction=0, start=-2, step=3)
    assert result.final == 10


def test_copies_are_what_they_are_copies_of() -> None:
    """Of counter, limit and sum; more trips than are tried out."""
    result = counted(
        "n = s32[] constant(5000)\n  n2 = s32[] copy(n)\n  j = s32[] copy(i)\n"
        "  ROOT m = pred[] compare(j, n2), direction=LT",
        "one = s32[] constant(1)\n  j.1 = s32[] copy(i.1)\n  sum = s32[] add(j.1, one)\n"
        "  next = s32[] copy(sum)",
        "constant(0)",
    )
    assert result == TripCount(5000, 0, 0, 1)


@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_a_rule_counts_from_what_a_loop_begins_with(kind: str) -> None:
    """Start and limit are known only then: the counter and the carried limit are named."""
    for direction, swapped in itertools.product(COMPARISONS, (False, True)):
        flipped = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, direction)
        operands, written = ("k, i", flipped) if swapped else ("i, k", direction)
        rule = loop_counter(
            the_loop(
                f"ROOT m = pred[] compare({operands}), direction={written}",
                f"one = {kind}[] constant(3)\n  next = {kind}[] add(i.1, one)",
                "negate(given)",
                kind,
                "negate(given)",
            )
        )
        assert rule is not None and rule.trips is None
        assert (rule.element, rule.limit_element) == (0, 1)
        low, high = (-128, 127) if kind == "s8" else (0, 255)
        for start, limit in itertools.product(range(low, high + 1, 5), range(low, high + 1, 7)):
            expected, wrapped = run(kind, start, 3, limit, direction)
            found = rule.trips_from(start, limit)
            assert found == (None if wrapped else expected), (start, limit, direction)


def test_a_limit_that_changes_is_no_rule() -> None:
    condition = "ROOT m = pred[] compare(i, k), direction=LT"
    loop = the_loop(condition, "next = s32[] multiply(i.1, i.1)", "negate(given)")
    assert loop_counter(loop) is None
