"""Probabilities of classes out of those of pairs: beside the exact minimum."""

import itertools

import numpy as np
import pytest

from lowtide.builder import Builder
from lowtide.evaluator import evaluate
from lowtide.frontend.onnx.coupling import coupled
from lowtide.ir import array_shape
from lowtide.ir.element_type import ElementType


def exact(firsts: np.ndarray, classes: int) -> np.ndarray:
    """The least sum of (r_ji p_i - r_ij p_j)^2 over pairs where p adds up to 1, by Lagrange."""
    matrix = np.zeros((classes + 1, classes + 1))
    for (i, j), share in zip(itertools.combinations(range(classes), 2), firsts, strict=True):
        matrix[i, i] += (1 - share) ** 2
        matrix[j, j] += share**2
        matrix[i, j] -= share * (1 - share)
        matrix[j, i] -= share * (1 - share)
    matrix[classes, :classes] = matrix[:classes, classes] = 1
    return np.linalg.solve(matrix, [0] * classes + [1])[:classes]


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_probabilities_fit_those_of_pairs_best(classes: int) -> None:
    random = np.random.default_rng(classes)
    given = random.random((9, classes * (classes - 1) // 2)).astype(np.float32)
    b = Builder("m")
    firsts = b.parameter(0, array_shape(ElementType.F32, given.shape), "firsts")
    found = evaluate(b.build(coupled(b, firsts, classes)), [given])
    wanted = np.array([exact(x, classes) for x in given.astype(np.float64)])
    np.testing.assert_allclose(found, wanted, atol=0.02)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_pairs_that_agree_with_one_distribution_give_it_back() -> None:
    wanted = np.array([[0.5, 0.3, 0.15, 0.05], [0.01, 0.01, 0.97, 0.01]])
    pairs = [*itertools.combinations(range(4), 2)]
    given = np.array([[p[i] / (p[i] + p[j]) for i, j in pairs] for p in wanted], np.float32)
    b = Builder("m")
    firsts = b.parameter(0, array_shape(ElementType.F32, given.shape), "firsts")
    found = evaluate(b.build(coupled(b, firsts, 4)), [given])
    np.testing.assert_allclose(found, wanted, atol=0.01)
