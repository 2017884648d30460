"""Which values of the flattened program lie in one buffer.

Values share a buffer where execution wants it (the state of a loop, the results of the branches of
a conditional, an output and the argument that it overwrites) or where it saves memory (an
operation that may write over an operand which dies). Two values never share while both are needed;
where a wish cannot be granted, the value keeps a buffer of its own and is copied at the border.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lowtide.analysis.flat_schedule import FlatSchedule, Loop, Selection, Values

Segment = tuple[int, int, int, int]
"""A stretch in which a buffer is taken: first and last position, both included, and the values
that it holds at these two."""


class CopyMoment(StrEnum):
    """When a copy between buffers runs, seen from the call site that it belongs to."""

    LOOP_ENTRY = "loop entry"
    """Before the loop of which the call site is the body."""
    ITERATION_END = "iteration end"
    """After each run of the call site, a loop body."""
    BRANCH_END = "branch end"
    """After the run of the call site, a branch."""
    RETURN = "return"
    """After the run of the entry."""


@dataclass(frozen=True, slots=True)
class Copy:
    """At `position`, the value `source` is copied to the buffer of the value `target`.

    `site` is the call site of the loop body, the branch or the entry at whose border that is.
    """

    moment: CopyMoment
    site: int
    position: int
    source: int
    target: int


@dataclass(frozen=True, eq=False, slots=True)
class Colocation:
    """The buffers of a flattened program.

    `segments[b]` are the stretches in which buffer `b` is taken, in order. `buffer_of` gives the
    buffer of each value, -1 where it has none (it takes no bytes, or is read-only). `output` and
    `argument` are the numbers of the output and parameter leaves that own the buffer's storage,
    -1 for neither. `results` is the value that ends up as each output leaf. `copies` stand in the
    order in which those of one moment and call site have to run.
    """

    values: Values
    nbytes: tuple[int, ...]
    segments: tuple[tuple[Segment, ...], ...]
    buffer_of: tuple[int, ...]
    output: tuple[int, ...]
    argument: tuple[int, ...]
    results: tuple[int, ...]
    copies: tuple[Copy, ...]


def colocate(
    flat: FlatSchedule, aliases: Sequence[tuple[int, int]], *, owns_results: bool
) -> Colocation:
    """Return the buffers of a program whose output leaves overwrite parameter leaves.

    `aliases` are pairs (output leaf, parameter leaf). With `owns_results`, each output leaf has a
    buffer of its own. Outputs are live up to the position behind the last one. The targets of
    copies are further values, numbered behind those of `flat`.
    """
    work = _Colocation(flat)
    for join in flat.joins:
        if isinstance(join, Loop):
            work.join_loop(join)
        else:
            work.join_selection(join)
    work.claim_outputs(aliases, owns_results=owns_results)
    work.order_copies()
    work.write_in_place()
    return work.result()


class _Colocation:
    """Union-find over values; each class knows its segments and the storage it is bound to."""

    def __init__(self, flat: FlatSchedule) -> None:
        self.flat = flat
        self.values = flat.values.copy()
        self.parent = list(range(len(self.values.nbytes)))
        self.segments: dict[int, list[Segment]] = {}
        self.output: dict[int, int] = {}
        self.argument: dict[int, int] = {}
        self.copies: list[Copy] = []
        self.results = list(flat.outputs)
        last, kept = self.values.last, flat.kept
        self.in_place = {
            (read, made)
            for read, made, position in flat.shares
            if last[read] == position and kept.get(read) != position
        }
        """Pairs (value that dies, value made there) that may touch in one buffer."""

    # -- classes -------------------------------------------------------------------------------

    def find(self, value: int) -> int:
        parent = self.parent
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    def segments_of(self, root: int) -> list[Segment]:
        found = self.segments.get(root)
        if found is None:
            found = [(self.values.first[root], self.values.last[root], root, root)]
        return found

    def merge(self, a: int, b: int, *, forced: bool = False) -> bool:
        """Put two values in one buffer; return False, and do nothing, where they interfere."""
        values = self.values
        if not values.nbytes[a]:
            return True
        if values.read_only[a] or values.read_only[b]:
            return False
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        if self._bound(a) and self._bound(b):
            return False
        joined = self._join(self.segments_of(a), self.segments_of(b), forced)
        if joined is None:
            return False
        self.parent[b] = a
        self.segments.pop(b, None)
        self.segments[a] = joined
        for storage in (self.output, self.argument):
            if b in storage:
                storage[a] = storage.pop(b)
        return True

    def _bound(self, root: int) -> bool:
        return root in self.output or root in self.argument

    def _join(self, a: list[Segment], b: list[Segment], forced: bool) -> list[Segment] | None:
        """The segments of both, those that touch made one; None where they overlap otherwise."""
        joined: list[Segment] = []
        for segment in sorted(a + b):
            if not joined or joined[-1][1] < segment[0]:
                joined.append(segment)
                continue
            before = joined[-1]
            touches = before[1] == segment[0] and (before[3], segment[2]) in self.in_place
            if not touches and not forced:
                return None
            end = segment if segment[1] >= before[1] else before
            joined[-1] = (before[0], end[1], before[2], end[3])
        return joined

    # -- what execution wants ------------------------------------------------------------------

    def join_loop(self, loop: Loop) -> None:
        for state, updated, final in zip(loop.state, loop.updated, loop.final, strict=True):
            self.in_place.add((updated, final))
            self.merge(state, final, forced=True)
            if not self.merge(state, updated):
                self._copy(CopyMoment.ITERATION_END, loop.site, loop.end, updated, final)
        for initial, state in zip(loop.initial, loop.state, strict=True):
            self.in_place.add((initial, state))
            if not self.merge(initial, state):
                self._copy(CopyMoment.LOOP_ENTRY, loop.site, loop.start, initial, state)

    def _temporary(self, position: int, like: int) -> int:
        values = self.values
        made = values.add(
            values.maker[like], values.leaf[like], values.nbytes[like], position, values.site[like]
        )
        self.parent.append(made)
        return made

    def _copy(self, moment: CopyMoment, site: int, position: int, source: int, target: int) -> None:
        if self.values.nbytes[target]:
            self.copies.append(Copy(moment, site, position, source, target))

    def join_selection(self, join: Selection) -> None:
        for site, end, returned in zip(join.sites, join.ends, join.returned, strict=True):
            for value, final in zip(returned, join.final, strict=True):
                if self.merge(value, final):
                    continue
                arrived = self._temporary(end, final)
                self.merge(final, arrived, forced=True)
                self._copy(CopyMoment.BRANCH_END, site, end, value, arrived)

    def claim_outputs(self, aliases: Sequence[tuple[int, int]], *, owns_results: bool) -> None:
        flat = self.flat
        for _, parameter in aliases:
            self.argument[self.find(flat.parameters[parameter])] = parameter
        for leaf, parameter in aliases:
            argument, value = flat.parameters[parameter], flat.outputs[leaf]
            if not self.merge(argument, value):
                self._return_copy(leaf, value, argument)
        aliased = {leaf for leaf, _ in aliases}
        for leaf, value in enumerate(flat.outputs):
            if leaf in aliased:
                continue
            root = self.find(value)
            if not self.values.read_only[value] and not self._bound(root):
                self.output[root] = leaf
            elif owns_results:
                self.output[self._return_copy(leaf, value, -1)] = leaf

    def _return_copy(self, leaf: int, value: int, argument: int) -> int:
        made = self._temporary(self.flat.length, value)
        if argument >= 0:
            self.merge(argument, made, forced=True)
        self._copy(CopyMoment.RETURN, 0, self.flat.length, value, made)
        self.results[leaf] = made
        return made

    def order_copies(self) -> None:
        """Sort the copies of each border so that none overwrites what a later one reads.

        Where buffers change places, a temporary takes one of them.
        """
        borders: dict[tuple[CopyMoment, int], list[Copy]] = {}
        for copy in self.copies:
            borders.setdefault((copy.moment, copy.site), []).append(copy)
        self.copies = [copy for group in borders.values() for copy in self._ordered(group)]

    def _ordered(self, copies: list[Copy]) -> list[Copy]:
        writer = {self.find(copy.target): i for i, copy in enumerate(copies)}
        overwrites = [writer.get(self.find(copy.source), -1) for copy in copies]
        readers = [0] * len(copies)
        for blocked in overwrites:
            if blocked >= 0:
                readers[blocked] += 1
        order = [i for i, count in enumerate(readers) if not count]
        for i in order:
            blocked = overwrites[i]
            if blocked >= 0:
                readers[blocked] -= 1
                if not readers[blocked]:
                    order.append(blocked)
        done = [copies[i] for i in order]
        left = [i for i, count in enumerate(readers) if count]
        while left:
            cycle = [left[0]]
            while overwrites[cycle[-1]] != cycle[0]:
                cycle.append(overwrites[cycle[-1]])
            left = [i for i in left if i not in cycle]
            done += self._rotate([copies[i] for i in cycle])
        return done

    def _rotate(self, cycle: list[Copy]) -> list[Copy]:
        """Copies each of which reads what the next one overwrites, the last one what the first."""
        first, last = cycle[0], cycle[-1]
        saved = self._temporary(first.position, last.source)
        return [
            replace(first, source=last.source, target=saved),
            *cycle[:-1],
            replace(last, source=saved),
        ]

    # -- what saves memory ---------------------------------------------------------------------

    def write_in_place(self) -> None:
        for read, made, _ in self.flat.shares:
            if (read, made) in self.in_place:
                self.merge(read, made)

    def result(self) -> Colocation:
        values = self.values
        number: dict[int, int] = {}
        buffer_of = []
        for value in range(len(values.nbytes)):
            if not values.nbytes[value] or values.read_only[value]:
                buffer_of.append(-1)
                continue
            root = self.find(value)
            buffer_of.append(number.setdefault(root, len(number)))
        return Colocation(
            values,
            tuple([values.nbytes[root] for root in number]),
            tuple([tuple(self.segments_of(root)) for root in number]),
            tuple(buffer_of),
            tuple([self.output.get(root, -1) for root in number]),
            tuple([self.argument.get(root, -1) for root in number]),
            tuple(self.results),
            tuple(self.copies),
        )
