"""Pairs of weights too large for sums of 16 bits: planted at each place of a panel, none, all."""

from collections.abc import Iterator

import numpy as np
import pytest
from tests.codegen.byte_targets import TARGETS
from tests.codegen.cpu.contraction.products import check
from tests.codegen.cpu.convolution.running import check as check_convolution
from tests.codegen.cpu.convolution.windows import Convolution, Window

from lowtide.codegen.cpu.convolution.convolution import plan_convolution
from lowtide.ir import ElementType
from lowtide.ir.literal import DTYPES, Array

ENDS = {"u8": 255, "s8": 127}
LARGE = [(127, 127), (-128, -128), (-128, -1), (2, 127), (127, -128), (64, 64), (-64, -64)]
"""Pairs at both ends, and the largest sums that fit and the least that do not."""


def _planted(k: int, columns: int) -> Iterator[tuple[int, int]]:
    """Each place along k where a pair may begin, with columns at the ends of vectors and panels."""
    ends = [x for x in (0, 7, 8, 15, 16, 31, columns - 1) if x < columns]
    for first in range(k - 1):
        yield first, ends[first % len(ends)]


def _dot(lhs: str, m: int, n: int, k: int, *, along_k: bool) -> str:
    columns, place = (f"{n},{k}", 1) if along_k else (f"{k},{n}", 0)
    return f"""HloModule bytes
ENTRY main {{
  a = {lhs}[{m},{k}] parameter(0)
  b = s8[{columns}] parameter(1)
  ROOT d = s32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{place}}}
}}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lhs", ENDS)
@pytest.mark.parametrize("along_k", [False, True])
def test_planted_pairs_of_a_matrix(lhs: str, target: str, *, along_k: bool) -> None:
    """All else is 0, so that one sum that saturates shows."""
    m, n, k = 21, 37, 43
    for number, pair in enumerate(LARGE):

        def plant(arrays: list[Array], pair: tuple[int, int] = pair, number: int = number) -> None:
            rows, columns = arrays
            rows[...] = ENDS[lhs]
            columns[...] = 0
            matrix = columns.T if along_k else columns
            for first, column in list(_planted(k, n))[number::2]:
                matrix[first : first + 2, column] = pair

        check(_dot(lhs, m, n, k, along_k=along_k), target=TARGETS[target], change=plant)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.015, 0.02, 0.3, 1.0])
def test_shares_of_large_pairs(share: float, target: str) -> None:
    """From lists that stay empty to panels that stay whole, along a k of several blocks."""

    def draw(arrays: list[Array]) -> None:
        rng = np.random.default_rng(5)
        rows, columns = arrays
        rows[...] = rng.integers(200, 256, rows.shape)
        small = rng.integers(-60, 61, columns.shape)
        large = rng.choice([-128, 127], columns.shape)
        columns[...] = np.where(rng.random(columns.shape) < share, large, small)

    for m, n, k in ((33, 24, 5000), (64, 100, 130), (9, 16, 12)):
        for along_k in (False, True):
            check(_dot("u8", m, n, k, along_k=along_k), target=TARGETS[target], change=draw)


SAME = Window(3, 1, 1, 1)

FORMS = {
    "border": Convolution(1, 64, 40, (9, 11), (SAME, SAME)),
    "copied": Convolution(2, 37, 21, (6, 9), (SAME, SAME)),
    "blocks of features": Convolution(1, 1030, 18, (5, 7), (SAME, SAME)),
    "dilated": Convolution(
        1, 32, 17, (9, 11), (Window(3, 1, 2, 2, 1, 2), Window(3, 1, 3, 3, 1, 3))
    ),
    "stretched": Convolution(1, 32, 17, (9, 11), (Window(3, 1, 2, 2, 2), Window(3, 1, 2, 2, 3))),
    "groups": Convolution(1, 12, 24, (5, 6), (SAME, SAME), 3),
    "one place": Convolution(1, 52, 30, (7, 7), (Window(), Window())),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("lhs", ENDS)
@pytest.mark.parametrize("share", [0.008, 0.2])
def test_large_pairs_of_kernels(share: float, lhs: str, name: str, target: str) -> None:
    """Rests know where the rows of tiles lie, also where these are copied at the border.

    Most panels of the smaller share have rests, and all of the larger one are whole.
    """

    def draw(seed: int, type_: ElementType, sizes: tuple[int, ...]) -> Array:
        rng = np.random.default_rng(seed)
        if seed == 0:
            return rng.integers(ENDS[lhs] - 99, ENDS[lhs] + 1, sizes).astype(DTYPES[type_])
        large = rng.choice([-128, -127, 2, 127], sizes)
        return np.where(rng.random(sizes) < share, large, 0).astype(DTYPES[type_])

    form = FORMS[name]
    convolution = Convolution(
        form.batch, form.features, form.outputs, form.sizes, form.windows,
        form.feature_groups, types=(lhs, "s8", "s32"),
    )  # fmt: skip
    check_convolution(plan_convolution, convolution.text, TARGETS[target], draw=draw)
