"""Largest matchings of operands and what may take them over, and least covers of such pairs.

Buffers of a pair have equal bytes, and so have all that hang together: most pairs are most bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, int]
"""An operand, and a buffer that may take it over."""


def largest_matching(pairs: Sequence[Pair]) -> dict[int, int]:
    """Return by operand the buffer that takes it over, for as many as can be (Berge 1957)."""
    options = _options(pairs)
    taken: dict[int, int] = {}
    for made in options:
        _augment(made, options, taken)
    return taken


def least_cover(pairs: Sequence[Pair]) -> set[int]:
    """Return as few buffers as can be such that each pair has one (Koenig 1931)."""
    options = _options(pairs)
    taken = largest_matching(pairs)
    matched = {*taken.values()}
    reachable = [made for made in options if made not in matched]
    seen: dict[int, None] = {}
    for made in reachable:
        for operand in options[made]:
            if operand not in seen:
                seen[operand] = None
                reachable.append(taken[operand])
    return {*seen} | (options.keys() - {*reachable})


def _options(pairs: Sequence[Pair]) -> dict[int, list[int]]:
    options: dict[int, list[int]] = {}
    for operand, made in pairs:
        options.setdefault(made, []).append(operand)
    return options


def _augment(begin: int, options: dict[int, list[int]], taken: dict[int, int]) -> None:
    """Match one more buffer, if that can be, by a shortest augmenting path."""
    reached_by: dict[int, int] = {}
    matched = {made: operand for operand, made in taken.items()}
    todo = [begin]
    for made in todo:
        for operand in options[made]:
            if operand in reached_by:
                continue
            reached_by[operand] = made
            if operand in taken:
                todo.append(taken[operand])
                continue
            at: int | None = operand
            while at is not None:
                owner = reached_by[at]
                taken[at], at = owner, matched.get(owner)
            return
