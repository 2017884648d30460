"""Sorting networks of records with keys, most of whose steps are made in registers.

A thread has some records that follow one another. Those that are compared with them are its own, or
come from another thread of the warp; only long distances go through shared memory. The network is
that of `networks.py`.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.gpu.networks import EACH, SharedRecords, SortTiling, key_before, selected
from lowtide.codegen.gpu.threads import WARP, barrier, exchanged, thread_in_block
from lowtide.codegen.library.records import Fields
from lowtide.llvm.function import Function

_WITHIN: Final = EACH * WARP
"""Records of a warp: those that are nearer meet in it."""


def write_key_network(fn: Function, shared: SharedRecords, tiling: SortTiling) -> None:
    """Write the sort of each row of a tile in shared memory; all threads see it when it is done."""
    barrier(fn)
    network = _Network(fn, shared)
    size = 2
    while size <= tiling.length:
        network.compare(size - 1, size // 2)
        half = size // 4
        while half:
            network.compare(half, half)
            half //= 2
        size *= 2
    network.finish()


class _Network:
    """Writes comparisons; `own` are the records of a thread."""

    def __init__(self, fn: Function, shared: SharedRecords) -> None:
        self.fn = fn
        self.shared = shared
        self.thread = thread_in_block(fn)
        self.first = fn.mul(self.thread, EACH)
        self.own = [shared.load(fn, fn.add(self.first, j)) for j in range(EACH)]

    def compare(self, mask: int, bit: int) -> None:
        """Compare each record with that whose number differs by the bits of `mask`.

        The lesser goes where `bit`, the highest of the mask, is not set.
        """
        fn = self.fn
        if bit < EACH:
            self._compare_own(mask, bit)
            return
        others = self._in_warp(mask) if bit < _WITHIN else self._in_block(mask)
        is_high = fn.compare("ne", fn.op(f"and i64 {self.thread}, {bit // EACH}"), 0)
        self.own = [
            self._kept(one, other, is_high) for one, other in zip(self.own, others, strict=True)
        ]

    def _compare_own(self, mask: int, bit: int) -> None:
        """Compare records of one thread."""
        fn, records = self.fn, self.shared.records
        for low in range(EACH):
            if low & bit:
                continue
            a, b = self.own[low], self.own[low ^ mask]
            swap = key_before(fn, records, b, a)
            self.own[low] = selected(fn, records, swap, b, a)
            self.own[low ^ mask] = selected(fn, records, swap, a, b)

    def _kept(self, own: Fields, other: Fields, is_high: str) -> Fields:
        """The lesser of two records, or the greater where `is_high`."""
        fn, records = self.fn, self.shared.records
        before = key_before(fn, records, other, own)
        return selected(fn, records, fn.op(f"xor i1 {before}, {is_high}"), other, own)

    def _in_warp(self, mask: int) -> list[Fields]:
        """The other records, from threads of the warp."""
        types = self.shared.records.types
        found = []
        for j in range(EACH):
            asked = zip(types, self.own[j ^ mask % EACH], strict=True)
            found.append(tuple([exchanged(self.fn, t, x, mask // EACH) for t, x in asked]))
        return found

    def _in_block(self, mask: int) -> list[Fields]:
        """The other records, through shared memory."""
        fn = self.fn
        self._store()
        barrier(fn)
        start = fn.op(f"xor i64 {self.first}, {mask - mask % EACH}")
        found = [self.shared.load(fn, fn.add(start, j ^ mask % EACH)) for j in range(EACH)]
        barrier(fn)
        return found

    def _store(self) -> None:
        for j, fields in enumerate(self.own):
            self.shared.store(self.fn, self.fn.add(self.first, j), fields)

    def finish(self) -> None:
        """Store the records; all threads see them then."""
        self._store()
        barrier(self.fn)
