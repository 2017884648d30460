"""Tridiagonal systems as loops: solutions of the full matrix, and pivots that are never zero."""

import numpy as np
import pytest
from tests.transforms.expand.test_custom_calls import LETTERS, matrices, shape
from tests.transforms.expand.test_expanders import expanded, opcodes

from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.literal import Array
from lowtide.transforms.expand.custom_calls import expand_custom_calls


def solved(letter: str, diagonals: list[Array], right: Array) -> Array:
    given = [*diagonals, right]
    lines = [f"p{i} = {shape(letter, x.shape)} parameter({i})" for i, x in enumerate(given)]
    call = (
        f"{shape(letter, right.shape)} custom-call(p0, p1, p2, p3), "
        'custom_call_target="tridiagonal_solve_perturbed_ffi"'
    )
    _, after = expanded("expand-custom-calls", "\n".join([*lines, f"y = {call}"]))
    assert "custom-call" not in opcodes(after)
    return np.asarray(evaluate(after, given))


def full(below: Array, main: Array, above: Array) -> Array:
    n = main.shape[-1]
    found = np.zeros((*main.shape, n), main.dtype)
    for i in range(n):
        found[..., i, i] = main[..., i]
        if i:
            found[..., i, i - 1] = below[..., i]
            found[..., i - 1, i] = above[..., i - 1]
    return found


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (7, 2), (2, 3, 6, 4)])
def test_solutions_are_those_of_the_full_matrix(letter: str, sizes: tuple[int, ...]) -> None:
    diagonals = [matrices(letter, sizes[:-1], seed) for seed in range(3)]
    diagonals[1][..., 0] /= 100
    right = matrices(letter, sizes, 3)
    unused = [x.copy() for x in diagonals]
    unused[0][..., 0] = unused[2][..., -1] = np.nan
    expected = np.linalg.solve(full(*diagonals), right)
    tolerance = 2e-3 if letter in "sc" else 1e-10
    for given in (diagonals, unused):
        np.testing.assert_allclose(solved(letter, given, right), expected, tolerance, tolerance)


def test_a_singular_system_has_a_large_solution() -> None:
    below, main, above = [np.array(x, np.float32) for x in ([0, 1], [1, 3], [3, 0])]
    right = np.array([[1], [4]], np.float32)
    # XLA's processor: the last pivot is 3, the largest element, times the precision.
    found = solved("s", [below, main, above], right)
    np.testing.assert_allclose(found[:, 0], [-25165824, 8388608], rtol=1e-5)
    nothing = np.zeros(3, np.float32)
    found = solved("s", [nothing] * 3, np.ones((3, 1), np.float32))
    np.testing.assert_allclose(found, 1 / np.finfo(np.float32).tiny)


def test_calls_of_other_shapes_stay() -> None:
    module = parse_hlo(
        """HloModule m
        ENTRY main {
          d = f32[3] parameter(0)
          b = f32[4,2] parameter(1)
          ROOT y = f32[4,2] custom-call(d, d, d, b),
            custom_call_target="tridiagonal_solve_perturbed_ffi"
        }"""
    )
    assert expand_custom_calls(module) == 0
