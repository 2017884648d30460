"""Merging two runs of records that are sorted, any part of the result by itself.

Source of the cut: S. Odeh, O. Green, Z. Mwassi, O. Shmueli and Y. Birk (2012), "Merge path -
parallel merging made simple".
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.library.records import Fields, Less, Records
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, Integer

CHAINS: Final = 4
"""Parts of a result that are merged at once, as each step waits for the one before."""

PARAMETERS: Final = parameters(
    buffers="ptr",
    row="i64",
    source="ptr",
    result="ptr",
    low="i64",
    middle="i64",
    high="i64",
    first="i64",
    last="i64",
)
"""Of a function that merges records low..middle and middle..high of a row.

It writes those from first to last of the result, where the whole goes from low to high.
"""


class MergeWriter:
    """Writes the body of such a function; `less` compares records within `elements`."""

    def __init__(self, elements: Elements, records: Records, less: Less) -> None:
        self.elements = elements
        self.fn: Function = elements.function
        self.records = records
        self.less = less

    def write(self) -> None:
        """Write the body."""
        fn = self.fn
        if not self.records.keyed:
            self._run("%low", "%middle", "%first", "%last")
            return
        length = fn.sub("%last", "%first")
        part = fn.div(length, CHAINS)
        cuts = []
        for number in range(CHAINS + 1):
            place = fn.add("%first", fn.mul(part, number))
            cuts.append((place, *self._cut(place)))
        carry = [("i64", str(x)) for _, i, j in cuts[:CHAINS] for x in (i, j)]
        with self.elements.scopes.loop(0, part, 1, carry) as loop:
            after: list[str] = []
            for number in range(CHAINS):
                i, j = loop.values[2 * number : 2 * number + 2]
                after += self._step(i, j, fn.add(cuts[number][0], loop.index))
            loop.next = after
        rest, left, right = cuts[CHAINS]
        self._run(left, right, rest, "%last")

    def _run(self, i: Integer, j: Integer, first: Integer, last: Integer) -> None:
        """Merge one element after the other."""
        carry = [("i64", str(i)), ("i64", str(j))]
        with self.elements.scopes.loop(first, last, 1, carry) as loop:
            loop.next = self._step(loop.values[0], loop.values[1], loop.index)

    def _step(self, i: str, j: str, to: Integer) -> list[str]:
        """Move the lesser record; return the places that come next. Of equal ones i is taken.

        Where the second run has ended its last record is looked at once more: behind it there may
        be anything, and what has no key says where an element lies.
        """
        fn, records = self.fn, self.records
        there: Integer = j if records.keyed else fn.min(j, fn.sub("%high", 1))
        a, b = records.load(fn, "%source", i), records.load(fn, "%source", there)
        is_left = fn.compare("slt", j, "%high")
        no_other = fn.compare("sge", i, "%middle")
        before = fn.op(f"and i1 {self.less(b, a)}, {is_left}")
        take = fn.op(f"or i1 {before}, {no_other}")
        chosen: Fields = tuple(
            [fn.select(take, t, y, x) for t, x, y in zip(records.types, a, b, strict=True)]
        )
        records.store(fn, "%result", to, chosen)
        step = fn.op(f"zext i1 {take} to i64")
        return [str(fn.sub(fn.add(i, 1), step)), str(fn.add(j, step))]

    def _cut(self, place: Integer) -> tuple[Integer, Integer]:
        """Where both runs stand when the result has been written up to a place."""
        fn, records = self.fn, self.records
        done = fn.sub(place, "%low")
        right = fn.sub("%high", "%middle")
        least = fn.max(fn.sub(done, right), 0)
        most = fn.min(done, fn.sub("%middle", "%low"))
        trips = records.capacity.bit_length() + 1
        carry = [("i64", str(least)), ("i64", str(most))]
        with self.elements.scopes.loop(0, trips, 1, carry) as loop:
            low, high = loop.values
            half = fn.op(f"lshr i64 {fn.add(low, high)}, 1")
            a = records.load(fn, "%source", fn.add("%low", half))
            opposite = fn.sub(fn.sub(fn.add("%middle", done), half), 1)
            b = records.load(fn, "%source", opposite)
            is_open = fn.compare("slt", low, high)
            before = self.less(b, a)
            lower = fn.op(f"and i1 {before}, {is_open}")
            raised = fn.select(is_open, "i64", fn.add(half, 1), low)
            loop.next = [fn.select(before, "i64", low, raised), fn.select(lower, "i64", half, high)]
        taken = loop.results[0]
        return fn.add("%low", taken), fn.add("%middle", fn.sub(done, taken))
