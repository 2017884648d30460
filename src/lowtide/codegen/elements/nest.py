"""Loops over several dimensions that carry totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.reducers import carried, renamed
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value
from lowtide.records import dataclass


@dataclass(eq=False, slots=True)
class Nest:
    """Loops while their body is written.

    `index` has a position per loop, outermost first; `totals` are what the iterations before left;
    the body sets `next`. After the loops `results` are the totals at the end.
    """

    index: tuple[Affine, ...]
    totals: list[Value]
    next: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


@contextmanager
def nest(elements: Elements, sizes: Sequence[int], totals: Sequence[Value]) -> Iterator[Nest]:
    """Write a loop for each size, outermost first, which carry totals."""
    if not sizes:
        innermost = Nest((), list(totals), list(totals))
        yield innermost
        innermost.results = innermost.next
        return
    with elements.scopes.loop(0, sizes[0], 1, carried(totals)) as loop:
        at = elements.indices.variable(loop.index, sizes[0])
        with nest(elements, sizes[1:], renamed(totals, loop.values)) as inner:
            found = Nest((at, *inner.index), inner.totals, inner.next)
            yield found
            inner.next = found.next
        loop.next = [name for value in inner.results for name in value.names]
    found.results = renamed(inner.results, loop.results)
