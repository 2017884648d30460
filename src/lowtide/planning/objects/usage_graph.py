"""Tensors that may take over each other's object, from what is computed from what.

A usage graph says which tensors are computed from a tensor. If each of them leads to a tensor `v`,
then `v` is made after all readers of the first tensor, whatever order the operations run in: the
two are never live together. Such pairs are the edges of the reallocation graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

UsageGraph = Sequence[Sequence[int]]
"""Per tensor the tensors that are computed from it."""


def reallocation_graph(usage: UsageGraph) -> list[list[int]]:
    """Return per tensor the tensors that may precede or follow it in its object, sorted.

    Raises ValueError for a number that is no tensor's, and for a cycle. Space is a bit for each
    pair of tensors, beside the result.
    """
    reach = _reachable(usage)
    partners: list[list[int]] = [[] for _ in usage]
    for tensor, children in enumerate(usage):
        if not children:
            continue
        for other in _members(reduce(and_, [reach[child] for child in children])):
            partners[tensor].append(other)
            partners[other].append(tensor)
    return [sorted(found) for found in partners]


def _members(bits: int) -> list[int]:
    """The numbers of the bits that are set, in order."""
    digits = bin(bits)[:1:-1]
    return [number for number, digit in enumerate(digits) if digit == "1"]


def _reachable(usage: UsageGraph) -> list[int]:
    """Per tensor those that one edge or more lead to, as the bits of a number."""
    reach = [0] * len(usage)
    for tensor in _last_first(usage):
        for child in usage[tensor]:
            reach[tensor] |= reach[child] | 1 << child
    return reach


def _last_first(usage: UsageGraph) -> list[int]:
    """The tensors in an order in which each comes after all that are computed from it."""
    parents: list[list[int]] = [[] for _ in usage]
    for tensor, children in enumerate(usage):
        for child in children:
            if not 0 <= child < len(usage):
                raise ValueError(f"tensor {tensor}: {child}, computed from it, is no tensor")
            parents[child].append(tensor)
    waiting_for = [len(children) for children in usage]
    order = [tensor for tensor, count in enumerate(waiting_for) if not count]
    for tensor in order:
        for parent in parents[tensor]:
            waiting_for[parent] -= 1
            if not waiting_for[parent]:
                order.append(parent)
    if len(order) < len(usage):
        stuck = next(tensor for tensor, count in enumerate(waiting_for) if count)
        raise ValueError(f"tensor {stuck} is computed from itself, or leads to one that is")
    return order
