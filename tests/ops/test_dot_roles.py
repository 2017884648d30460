"""What becomes of the dimensions of a dot's operands, against the shapes that NumPy gives."""

import numpy as np
import pytest

from lowtide.ir.attributes import DotDimensions
from lowtide.ops.dot_roles import roles_of

LETTERS = "abcdefgh"
CASES = [
    (DotDimensions((1,), (0,)), 2, 2),
    (DotDimensions((0,), (1,)), 2, 2),
    (DotDimensions(), 1, 2),
    (DotDimensions((2,), (2,), (0, 1), (0, 1)), 4, 3),
    (DotDimensions((0, 3), (1, 0), (2,), (3,)), 5, 4),
]


@pytest.mark.parametrize(("numbers", "lhs_rank", "rhs_rank"), CASES)
def test_free_dimensions_stand_where_einsum_puts_them(numbers, lhs_rank, rhs_rank):
    sides = roles_of(numbers, lhs_rank, rhs_rank)
    names, rest = [], iter(LETTERS)
    batch = [next(rest) for _ in numbers.lhs_batch]
    contracted = [next(rest) for _ in numbers.lhs_contracting]
    free = [[next(rest) for _ in side.free] for side in sides]
    for side, own in zip(sides, free, strict=True):
        names.append(side.spread(batch, contracted, own))
    result = [*batch, *free[0], *free[1]]
    size = {letter: 2 + i for i, letter in enumerate(LETTERS)}
    arrays = [np.ones([size[x] for x in own]) for own in names]
    text = f"{','.join(map(''.join, names))}->{''.join(result)}"
    made = np.einsum(text, *arrays).shape
    for side, array in zip(sides, arrays, strict=True):
        pairs = zip(array.shape, side.places, strict=True)
        assert all(made[place] == n for n, place in pairs if place >= 0)
        assert [side.places[d] for d in side.contracted] == [-1] * len(contracted)
        assert [side.places[d] for d in side.free] == list(side.in_result)
