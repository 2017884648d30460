"""Probabilities of several classes out of those of each pair of them."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.elementwise import zeros_like
from lowtide.frontend.graphs.shared.loops import repeat_steps
from lowtide.frontend.graphs.shared.reductions import reduce

_STEPS: Final = 100
_NEAR: Final = 0.005
_LEAST: Final = 1e-7


def coupled(b: Builder, firsts: Op, classes: int) -> Op:
    """Return the probabilities [row, class] that fit those of the first class of each pair best.

    `firsts` has the pairs (0, 1), (0, 2), ... along its second dimension. By Wu, Lin and Weng,
    2004, "Probability Estimates for Multi-class Classification by Pairwise Coupling", algorithm 2,
    with the steps and the tolerance of LIBSVM: a row that is near enough stays as it is.
    """
    rows = firsts.dimensions[0]
    low, high = [
        b.broadcast(b.constant(np.float32(x)), firsts.dimensions, []) for x in (_LEAST, 1 - _LEAST)
    ]
    firsts = b.clamp(low, firsts, high)
    matrix = _matrix(b, firsts, classes)
    start = b.broadcast(b.constant(np.float32(1 / classes)), [rows, classes], [])

    def step(inner: Builder, _: Op, state: list[Op]) -> list[Op]:
        return [_stepped(inner, state[0], state[1], classes), state[1]]

    return repeat_steps(b, _STEPS, [start, matrix], step)[0]


def _matrix(b: Builder, firsts: Op, classes: int) -> Op:
    """The matrix [row, class, class] of the quadratic form that probabilities make least."""
    rows = firsts.dimensions[0]
    numbers = {x: n for n, x in enumerate(itertools.combinations(range(classes), 2))}

    def share(i: int, j: int) -> Op:
        """The probability of i among i and j."""
        found = b.slice(firsts, [0, n := numbers[min(i, j), max(i, j)]], [rows, n + 1], [1, 1])
        return found if i < j else 1 - found

    cells = []
    for i, j in itertools.product(range(classes), repeat=2):
        if i != j:
            cells.append(b.negate(share(j, i) * share(i, j)))
            continue
        others = [share(x, i) for x in range(classes) if x != i]
        total = others[0] * others[0]
        for other in others[1:]:
            total = total + other * other
        cells.append(total)
    return b.reshape(b.concatenate(cells, 1), [rows, classes, classes])


def _stepped(b: Builder, p: Op, matrix: Op, classes: int) -> Op:
    """The probabilities after one more round over the classes, where they are not near enough."""
    rows = p.dimensions[0]
    wide = b.broadcast(p, matrix.dimensions, [0, 2])
    products = reduce(b, "sum", matrix * wide, [2])
    total = reduce(b, "sum", p * products, [1])
    gap = reduce(b, "max", b.abs(products - b.broadcast(total, p.dimensions, [0])), [1])
    is_near = b.broadcast(gap.lt(_NEAR / classes), p.dimensions, [0])
    new = p
    for i in range(classes):
        row = b.reshape(b.slice(matrix, [0, i, 0], [rows, i + 1, classes], [1, 1, 1]), p.dimensions)
        own = _column(b, row, i)
        product = _column(b, products, i)
        change = (total - product) / own
        scale = 1 + change
        total = (total + change * (change * own + 2 * product)) / scale / scale
        is_own = b.broadcast(b.constant(np.arange(classes) == i), p.dimensions, [1])
        added = b.select(is_own, b.broadcast(change, p.dimensions, [0]), zeros_like(b, p))
        scales = b.broadcast(scale, p.dimensions, [0])
        products = (products + b.broadcast(change, p.dimensions, [0]) * row) / scales
        new = (new + added) / scales
    return b.select(is_near, p, new)


def _column(b: Builder, x: Op, i: int) -> Op:
    """One number of each row."""
    return b.reshape(b.slice(x, [0, i], [x.dimensions[0], i + 1], [1, 1]), x.dimensions[:1])
