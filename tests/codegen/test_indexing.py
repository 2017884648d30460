"""Affine indices against numbers: sums, products, bounds, quotients."""

import random
from itertools import product

from lowtide.codegen import indexing
from lowtide.codegen.indexing import Affine, Variable


def value(index: Affine, numbers: dict[Variable, int]) -> int:
    return index.constant + sum([factor * numbers[v] for v, factor in index.terms])


def drawn(choices: random.Random, variables: list[Variable]) -> Affine:
    total = indexing.constant(choices.randint(-9, 9))
    for variable in variables:
        total = total + indexing.of(variable) * choices.choice((-6, -1, 0, 1, 2, 3, 12))
    return total


def all_numbers(variables: list[Variable]) -> list[dict[Variable, int]]:
    places = product(*[range(x.extent) for x in variables])
    return [dict(zip(variables, at, strict=True)) for at in places]


def test_arithmetic_and_bounds() -> None:
    choices = random.Random(1)
    variables = [Variable(i, f"%{i}", size, i) for i, size in enumerate((4, 3, 2))]
    everywhere = all_numbers(variables)
    for _ in range(200):
        a, b = drawn(choices, variables), drawn(choices, variables)
        factor = choices.randint(-3, 3)
        for at in everywhere:
            x, y = value(a, at), value(b, at)
            assert value(a + b, at) == x + y
            assert value(a - b, at) == x - y
            assert value(a * factor, at) == x * factor
        for index in (a, b, a + b, a - b, a * factor):
            found = [value(index, at) for at in everywhere]
            assert index.low <= min(found)
            assert max(found) <= index.high
        assert not (a - a).terms


def test_bounds_of_single_terms_are_reached() -> None:
    variable = Variable(0, "%i", 5, 0)
    index = indexing.of(variable) * -3 + 4
    assert (index.low, index.high) == (-8, 4)


def test_quotients_are_right_wherever_they_are_affine() -> None:
    choices = random.Random(2)
    variables = [Variable(i, f"%{i}", size, i) for i, size in enumerate((4, 3, 2))]
    everywhere = all_numbers(variables)
    affine = 0
    for _ in range(600):
        index = drawn(choices, variables)
        index = index + -min(index.low, 0)
        divisor = choices.choice((1, 2, 3, 4, 6, 12))
        found = index.split(divisor)
        if found is None:
            continue
        affine += 1
        quotient, remainder = found
        for at in everywhere:
            x = value(index, at)
            assert (value(quotient, at), value(remainder, at)) == divmod(x, divisor)
            assert quotient.low <= x // divisor <= quotient.high
            assert remainder.low <= x % divisor <= remainder.high
    assert affine > 100


def test_a_number_split_into_digits_and_put_together_is_the_number() -> None:
    sizes = (3, 4, 5)
    variables = [Variable(i, f"%{i}", size, i) for i, size in enumerate(sizes)]
    rest = indexing.linear(tuple([indexing.of(x) for x in variables]), sizes)
    places = []
    for size in reversed(sizes):
        found = rest.split(size)
        assert found is not None
        rest, place = found
        places.append(place)
    assert [x.terms for x in reversed(places)] == [((v, 1),) for v in variables]


def test_lane_steps() -> None:
    lane = Variable(0, "%i", 64, 1, is_lane=True)
    looked_up = Variable(1, "%v", 9, 1, vector="%v")
    assert (indexing.of(lane) * 4 + 3).lane_step == 4
    assert indexing.constant(3).lane_step == 0
    assert (indexing.of(lane) + indexing.of(looked_up)).lane_step is None
