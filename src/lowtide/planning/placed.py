"""Buffers that lie in memory already, and the gaps that they leave for another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from lowtide.planning.plans import Packing, arena_packing
from lowtide.planning.problem import FREE, Int64Array, PackingProblem

ENDLESS: Final = np.iinfo(np.int64).max
"""The end of the last gap."""


class Placed:
    """Places sorted by offset, of equal ones the earlier first."""

    def __init__(self) -> None:
        self._rows = np.zeros((4, 64), np.int64)
        self._count = 0

    def put(self, first: int, last: int, offset: int, end: int) -> None:
        """Occupy the bytes from `offset` to `end` from step `first` to `last`, included."""
        count = self._count
        if count == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)], axis=1)
        rows = self._rows
        at = int(np.searchsorted(rows[2, :count], offset, side="right"))
        rows[:, at + 1 : count + 1] = rows[:, at:count]
        rows[:, at] = first, last, offset, end
        self._count += 1

    def gaps(self, spans: Iterable[tuple[int, int]]) -> tuple[Int64Array, Int64Array]:
        """Return where gaps begin and end that are free in all steps of `spans`, ends included.

        There is one below each place that is in use then, perhaps empty or negative, and an endless
        one on top.
        """
        rows = self._rows[:, : self._count]
        together = np.zeros(self._count, np.bool_)
        for first, last in spans:
            together |= (rows[0] <= last) & (rows[1] >= first)
        chosen = np.flatnonzero(together)
        begin = np.zeros(len(chosen) + 1, np.int64)
        np.maximum.accumulate(rows[3, chosen], out=begin[1:])
        end = np.full(len(chosen) + 1, ENDLESS)
        end[:-1] = rows[2, chosen]
        return begin, end


def aligned(offsets: Int64Array, alignment: int) -> Int64Array:
    """Return offsets rounded up to multiples of `alignment`."""
    return offsets if alignment == 1 else -(-offsets // alignment) * alignment


def smallest_gap(begin: Int64Array, end: Int64Array, nbytes: int) -> int:
    """Return the start of the smallest gap that holds `nbytes`, the lowest of equal ones."""
    room = end - begin
    room[room < nbytes] = ENDLESS
    room[-1] = ENDLESS
    smallest = int(room.argmin())
    return int(begin[smallest if room[smallest] != ENDLESS else -1])


def lowest_gap(begin: Int64Array, end: Int64Array, nbytes: int) -> int:
    """Return the start of the lowest gap that holds `nbytes`."""
    return int(begin[int((end - begin >= nbytes).argmax())])


def spans_of(problem: PackingProblem) -> list[list[tuple[int, int]]]:
    """Return the stretches, (first, last) with both ends included, in which each buffer is live."""
    spans: list[list[tuple[int, int]]] = [[] for _ in range(len(problem))]
    rows = zip(problem.item.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True)
    for item, first, last in rows:
        spans[item].append((first, last))
    return spans


def place_in_order(
    problem: PackingProblem, order: Int64Array, choose: Callable[[Int64Array, Int64Array, int], int]
) -> Packing:
    """Return the packing that puts buffers into gaps, one after another, fixed ones first.

    `choose` gets where gaps begin, aligned, and end, and the size of the buffer.
    """
    spans = spans_of(problem)
    sizes, alignments = problem.nbytes.tolist(), problem.alignment.tolist()
    offsets = problem.fixed_offset.tolist()
    placed = Placed()
    fixed = [item for item in order.tolist() if offsets[item] != FREE]
    free = [item for item in order.tolist() if offsets[item] == FREE]
    for item in (*fixed, *free):
        if offsets[item] == FREE:
            begin, end = placed.gaps(spans[item])
            offsets[item] = choose(aligned(begin, alignments[item]), end, sizes[item])
        for first, last in spans[item]:
            placed.put(first, last, offsets[item], offsets[item] + sizes[item])
    return arena_packing(problem, offsets)
