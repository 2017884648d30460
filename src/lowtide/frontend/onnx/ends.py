"""Places in trees at which rows end: by bits or by a walk, whichever is less work."""

from __future__ import annotations

from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.onnx.bit_places import bit_places
from lowtide.frontend.onnx.forest import Forest
from lowtide.frontend.onnx.leaf_bits import LeafBits, by_target, leaf_bits, tests_of
from lowtide.frontend.onnx.node_tests import without_unequal
from lowtide.frontend.onnx.packed_forest import Levels, levels_of, packed, stages
from lowtide.frontend.onnx.tree_walk import walked_places
from lowtide.ir.literal import DTYPES, Array
from lowtide.records import dataclass

_STEP: Final = 34
"""What a step of a row costs, in tests of a row beside others."""

_FIRST_ROW: Final = 9
"""What a test costs beside those of its rows, in the same measure."""

_BESIDE: Final = 8
"""Rows are compared in groups of as many: about as many lanes vectors have."""


@dataclass(frozen=True, eq=False, slots=True)
class Ends:
    """Places `at` which rows end, whose dimension `trees` counts trees or parts of these.

    `nodes` are the numbers in the forest by place; at a place of -1 no leaf is. With `by_target`
    trees are in equal runs, the leaves of which weigh for one target each.
    """

    at: Op
    trees: int
    nodes: Array
    by_target: bool = False


def ends(b: Builder, x: Op, forest: Forest) -> list[Ends]:
    """Return where rows of x [n, features] end, of some trees after the other.

    Behind them may be rows that mean nothing.
    Raises ValueError where a node tests a feature that there is not.
    """
    n, width = x.dimensions
    forest = without_unequal(forest)
    levels = levels_of(forest)
    greatest = int(forest.features[levels.nodes[~levels.is_leaf]].max(initial=0))
    if greatest >= width:
        raise ValueError(f"a node tests feature {greatest} of {width}")
    if not _is_by_bits(levels, n):
        walked = packed(forest, levels, DTYPES[x.element_type])
        return [Ends(walked_places(b, x, walked), 1, walked.nodes)]
    beside = _rows_beside(n)
    if beside > n:
        x = b.pad(x, b.constant(0, x.element_type), [(0, beside - n), (0, 0)])
    return [_by_bits(b, x, forest, bits) for bits in leaf_bits(levels)]


def _rows_beside(n: int) -> int:
    """As many rows as are compared side by side, of which one alone is not."""
    return n if n <= 1 else -(-n // _BESIDE) * _BESIDE


def _by_bits(b: Builder, x: Op, forest: Forest, bits: LeafBits) -> Ends:
    runs = by_target(bits, forest.has) if forest.has.shape[1] > 1 else None
    bits = bits if runs is None else runs
    return Ends(bit_places(b, x, forest, bits), 0, bits.nodes.reshape(-1), runs is not None)


def _is_by_bits(levels: Levels, n: int) -> bool:
    """Whether all tests are less work than the steps of a walk."""
    steps = sum([many * steps for many, steps in stages(levels.depths)])
    return tests_of(levels) * (_rows_beside(n) + _FIRST_ROW) <= _STEP * n * steps
