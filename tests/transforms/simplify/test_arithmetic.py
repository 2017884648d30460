"""Each rule on sums, products and the like, before and after."""

import pytest

from lowtide.testing.check_rule import check_rule
from lowtide.transforms.simplify.arithmetic import RULES

NAMED = {rule.name: rule for rule in RULES}
X = "x = f32[4] parameter(0)\n"
N = "x = s32[4] parameter(0)\n"

CASES: list[tuple[str, str, str | None]] = [
    (
        "constant-on-the-right",
        X + "c = f32[] constant(2)\nb = f32[4] broadcast(c), dimensions={}\na = f32[4] add(b, x)",
        X + "c = f32[] constant(2)\nb = f32[4] broadcast(c), dimensions={}\na = f32[4] add(x, b)",
    ),
    (
        "add-nothing",
        N + "c = s32[] constant(0)\nb = s32[4] broadcast(c), dimensions={}\na = s32[4] add(x, b)",
        N,
    ),
    (
        "add-nothing",
        X + "c = f32[] constant(0)\nb = f32[4] broadcast(c), dimensions={}\na = f32[4] add(x, b)",
        None,
    ),
    (
        "add-nothing",
        X + "c = f32[] constant(-0)\nb = f32[4] broadcast(c), dimensions={}\na = f32[4] add(x, b)",
        X,
    ),
    (
        "add-zero",
        X + "c = f32[] constant(0)\nb = f32[4] broadcast(c), dimensions={}\na = f32[4] add(x, b)",
        X,
    ),
    (
        "subtract-zero",
        X + "c = f32[] constant(0)\nb = f32[4] broadcast(c), dimensions={}\n"
        "a = f32[4] subtract(x, b)",
        X,
    ),
    (
        "times-one",
        X + "c = f32[] constant(1)\nb = f32[4] broadcast(c), dimensions={}\n"
        "a = f32[4] divide(x, b)",
        X,
    ),
]


@pytest.mark.parametrize(("name", "before", "after"), CASES, ids=lambda x: str(x)[:20])
def test_rules(name: str, before: str, after: str | None) -> None:
    check_rule(NAMED[name], before, after)


def test_every_rule_has_a_case() -> None:
    assert {name for name, _, after in CASES if after is not None} == set(NAMED)
