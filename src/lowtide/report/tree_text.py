"""The tree of calls at the peak, as lines."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from lowtide.report.drawing import elide, elide_qualified
from lowtide.report.peak import Peak
from lowtide.report.peak_table import TableForm, plain_function, step_text
from lowtide.report.stack_tree import StackNode, StackTree, stack_tree
from lowtide.report.units import percentage

_TINY: Final = 100
"""A call that holds less than one part in so many of the peak is not worth a line."""
_DEEPEST: Final = 20
"""How far lines are indented at most, in columns."""


def tree_lines(peak: Peak, rows: int, form: TableForm) -> list[str]:
    """Return a header and up to `rows` calls: those that hold most, each below its caller.

    A call that holds all that its caller does stands in its place.
    """
    total = sum([x.nbytes for x in peak.buffers])
    tree = stack_tree(peak.buffers)
    shown = _shown(tree, rows, total)
    unit, paint = form.unit, form.paint
    figures = [unit.number(tree.nodes[node].nbytes) for node, _ in shown]
    width = max([7, *map(len, figures)])
    header = f"{unit.name:>{width}}  share  {'live':<15}  call"
    lines = [paint("dim", header)]
    for (number, depth), figure in zip(shown, figures, strict=True):
        node = tree.nodes[number]
        live = f"{step_text(node.live[0])}..{step_text(node.live[1])}"
        share = percentage(node.nbytes, total)
        indent = min(2 * depth, _DEEPEST)
        call = _call(node, form.width - width - 26 - indent)
        lines.append(f"{figure:>{width}}  {share:>5}  {live:<15}  {' ' * indent}{call}")
    unknown = sum([x.nbytes for x, at in zip(peak.buffers, tree.leaf_of, strict=True) if at < 0])
    if unknown:
        share = percentage(unknown, total)
        lines.append(f"{unit.number(unknown):>{width}}  {share:>5}  of unknown origin")
    return lines


def _shown(tree: StackTree, rows: int, total: int) -> list[tuple[int, int]]:
    """The numbers of the calls that get a line, in order of the tree, with their depths."""
    children: list[list[int]] = [[] for _ in tree.nodes]
    roots: list[int] = []
    for number, node in enumerate(tree.nodes):
        (children[node.parent] if node.parent >= 0 else roots).append(number)
    largest = sorted(
        [x for x in range(len(tree.nodes)) if not _stands_for_it(tree, children[x], x)],
        key=lambda x: -tree.nodes[x].nbytes,
    )
    chosen = {x for x in largest[:rows] if tree.nodes[x].nbytes * _TINY >= total}
    found = []
    waiting = [(x, 0) for x in reversed(_by_size(tree, roots))]
    while waiting:
        number, depth = waiting.pop()
        if number in chosen:
            found.append((number, depth))
            depth += 1
        waiting += [(x, depth) for x in reversed(_by_size(tree, children[number]))]
    return found


def _stands_for_it(tree: StackTree, children: list[int], number: int) -> bool:
    """Whether one call within this one holds all that it holds."""
    return any(tree.nodes[x].nbytes == tree.nodes[number].nbytes for x in children)


def _by_size(tree: StackTree, numbers: list[int]) -> list[int]:
    return sorted(numbers, key=lambda x: -tree.nodes[x].nbytes)


def _call(node: StackNode, room: int) -> str:
    """The function and the place of a call; a long name of a function loses its first parts."""
    if not node.file:
        return elide(node.function, room)
    place = f"{PurePosixPath(node.file).name}:{node.line}"
    if not node.function:
        return elide(place, room)
    function = plain_function(node.function)
    return elide(f"{elide_qualified(function, max(8, room - len(place) - 2))}  {place}", room)
