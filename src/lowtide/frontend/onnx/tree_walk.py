"""The leaves at which rows end, by a walk: all rows and trees take a step at once, by gathers."""

from __future__ import annotations

import numpy as np

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.shared.elementwise import is_nan
from lowtide.frontend.graphs.shared.indexing import take
from lowtide.frontend.graphs.shared.loops import repeat_steps
from lowtide.frontend.onnx.node_tests import COMPARE
from lowtide.frontend.onnx.packed_forest import PackedForest, stages
from lowtide.ir.element_type import ElementType


def walked_places(b: Builder, x: Op, forest: PackedForest) -> Op:
    """Return the place in `forest.nodes` at which each row of x [n, features] ends: s32 [n, trees].

    Trees that have all come to leaves are left out.
    """
    n, width = x.dimensions
    trees = np.arange(len(forest.depths), dtype=np.int32)
    at = b.broadcast(b.constant(trees), [n, len(trees)], [1])
    tables = [b.reshape(x, [n * width]), b.constant(forest.words), b.constant(forest.thresholds)]
    done: list[Op] = []

    def step(c: Builder, _: Op, before: list[Op]) -> list[Op]:
        return [_step(c, forest, width, *before), *before[1:]]

    for many, steps in stages(forest.depths):
        if many < at.dimensions[1]:
            done.append(b.slice(at, [0, many], [n, at.dimensions[1]], [1, 1]))
            at = b.slice(at, [0, 0], [n, many], [1, 1])
        at = repeat_steps(b, steps, [at, *tables], step)[0]
    return b.concatenate([at, *done[::-1]], 1) if done else at


def _step(
    b: Builder, forest: PackedForest, width: int, at: Op, x: Op, words: Op, thresholds: Op
) -> Op:
    """The places that follow those `at` which rows are."""
    word = take(b, words, at, 0)
    shift = forest.mode_bits + 1
    feature = b.convert((word >> shift) & ((1 << forest.feature_bits) - 1), ElementType.S32)
    value = take(b, x, b.iota(at.shape, 0) * width + feature, 0)
    threshold = take(b, thresholds, at, 0)
    holds = COMPARE[forest.modes[0]](value, threshold)
    for number, mode in enumerate(forest.modes[1:], 1):
        own = (word & ((1 << forest.mode_bits) - 1)).eq(number)
        holds = b.select(own, COMPARE[mode](value, threshold), holds)
    if (forest.words >> forest.mode_bits & 1).any():
        passes = ((word >> forest.mode_bits) & 1).eq(1)
        holds = holds | (is_nan(b, value) & passes)
    first = b.convert(word >> (shift + forest.feature_bits), ElementType.S32)
    return first + b.convert(holds, ElementType.S32)
