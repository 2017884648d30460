"""Layout assignment: an order of the dimensions of each array, so that few bytes are transposed.

Given are the layouts of arguments and results, and of what gives bytes a meaning of its own.
Convolutions like channels last, transposes like to move nothing, reductions like their rows.
Wishes are granted heaviest first (`agreement.py`). Then single values change sides where fewer
bytes move that way; all else stays as it was. Where two layouts meet, there is a copy.

Before: y = f32[8,4] transpose(x); z = f32[8,4]{1,0} negate(y); w = transpose(z)
After:  y = f32[8,4]{0,1} transpose(x); z = f32[8,4]{0,1} negate(y); w = transpose(z)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from lowtide.ir import Module
from lowtide.passes.interface import Pass, example
from lowtide.transforms.layout.orders import Order, normal_order, permuted
from lowtide.transforms.layout.problem import LayoutNode, LayoutProblem, cost, needs, total
from lowtide.transforms.simplify.shapes import inverse

_MOST_CANDIDATES: Final = 6
"""Orders that are tried for a class of values which nothing else decides."""

_MOST_MOVES: Final = 8
"""How often a value may change its order, on average, before the search ends."""


def assign_layouts(module: Module) -> int:
    """Give values layouts that need fewer bytes transposed; return how many changed.

    Copies stand where a value is read in another layout than it has. A module whose loops or calls
    disagree on layouts stays as it is.
    """
    problem = LayoutProblem(module)
    changes = 0
    if problem.places.is_consistent and any(unit.cost for unit in problem.units):
        from lowtide.transforms.layout.written_layouts import write_layouts  # Most need no choice.

        _choose(problem)
        changes = write_layouts(problem)
    problem.take_apart()
    return changes


def _choose(problem: LayoutProblem) -> None:
    from lowtide.transforms.layout.agreement import Agreement

    agreement = Agreement(problem)
    classes: dict[LayoutNode, list[tuple[LayoutNode, Order]]] = {}
    for node in problem.nodes:
        first, image = agreement.find(node)
        classes.setdefault(first, []).append((node, image))
    for first, members in classes.items():
        order = agreement.given(first)
        if order is not None:
            _label(members, order)
    for first, members in classes.items():
        if agreement.given(first) is None:
            _try_candidates(members)
    _descend(problem)
    _keep_if_less(problem)
    _descend(problem)


def _label(members: Iterable[tuple[LayoutNode, Order]], first: Order) -> None:
    for node, image in members:
        if not node.pinned:
            node.label = normal_order(permuted(image, first), node.sizes)


def _try_candidates(members: list[tuple[LayoutNode, Order]]) -> None:
    """Give a class the order that costs least, of those its operations suggest."""
    units = list(dict.fromkeys([unit for node, _ in members for unit in node.units]))
    best = total(units)
    if not best:
        return
    candidates: dict[Order, None] = {}
    for node, image in sorted(members, key=lambda member: -member[0].nbytes)[:_MOST_CANDIDATES]:
        for order in (node.present, *_suggested(node)):
            candidates.setdefault(permuted(inverse(image), order))
    before = [node.label for node, _ in members]
    for candidate in list(candidates)[:_MOST_CANDIDATES]:
        _label(members, candidate)
        found = total(units)
        if found < best:
            best, before = found, [node.label for node, _ in members]
    for (node, _), order in zip(members, before, strict=True):
        node.label = order


def _suggested(node: LayoutNode) -> list[Order]:
    """The orders in which the operations around a value would make or read it."""
    found = []
    for unit in node.units[:_MOST_CANDIDATES]:
        wanted = needs(unit)
        if unit.result is node and wanted.result is not None:
            found.append(wanted.result)
        for operand, order in zip(unit.operands, wanted.operands, strict=True):
            if operand is node and order is not None:
                found.append(order)
        if unit.target is node and unit.operands[0] is not None:
            found.append(unit.operands[0].label)
    return found


def _descend(problem: LayoutProblem) -> None:
    """Let single values change to an order that costs less, until none does."""
    waiting = deque([unit for unit in problem.units if cost(unit)])
    queued = set(waiting)
    moves = _MOST_MOVES * len(waiting)
    while waiting and moves > 0:
        unit = waiting.popleft()
        queued.discard(unit)
        for node in unit.nodes:
            if node.pinned or len(node.units) > _MOST_UNITS or not _improve(node):
                continue
            moves -= 1
            for other in node.units:
                if other not in queued and cost(other):
                    queued.add(other)
                    waiting.append(other)


_MOST_UNITS: Final = 64
"""Readers from which on a value does not change alone."""


def _improve(node: LayoutNode) -> bool:
    before, least = node.label, total(node.units)
    best = before
    for order in dict.fromkeys(_suggested(node)):
        node.label = normal_order(order, node.sizes)
        found = total(node.units)
        if found < least:
            best, least = node.label, found
    node.label = best
    return best != before


def _keep_if_less(problem: LayoutProblem) -> None:
    """Take back all labels of a connected part of the module where they are not worth it."""
    above: dict[LayoutNode, LayoutNode] = {}

    def find(node: LayoutNode) -> LayoutNode:
        while node in above:
            if above[node] in above:
                above[node] = above[above[node]]
            node = above[node]
        return node

    moved = {node for node in problem.nodes if node.label != node.present}
    for unit in problem.units:
        changed = [node for node in unit.nodes if node in moved]
        for node in changed[1:]:
            a, b = find(changed[0]), find(node)
            if a is not b:
                above[b] = a
    gain: dict[LayoutNode, float] = {}
    for unit in problem.units:
        changed = [node for node in unit.nodes if node in moved]
        if changed:
            first = find(changed[0])
            gain[first] = gain.get(first, 0.0) + unit.cost - cost(unit)
    for node in problem.nodes:
        if node in moved and gain[find(node)] <= 0:
            node.label = node.present


PASSES: Final = (
    Pass(
        "layout-assignment",
        assign_layouts,
        "Gives arrays the layouts with which the fewest bytes are transposed.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[4,8]{1,0} parameter(0)
- y = f32[8,4]{1,0} transpose(x), dimensions={1,0}
- z = f32[8,4]{1,0} negate(y)
+ y = f32[8,4]{0,1} transpose(x), dimensions={1,0}
+ z = f32[8,4]{0,1} negate(y)
  ROOT w = f32[4,8]{1,0} transpose(z), dimensions={1,0}
}
"""
        ),
    ),
)
