"""The values of the flattened program that lie in one buffer.

Values have to share a buffer where execution wants it: the state of a loop, the results of the
branches of a conditional, an operand and what is written into it, an output and the argument that
it overwrites. They may share a buffer where that saves memory: an operand that dies, and a result
that can be written over it.

    granted                           refused
    state of a loop    ######         state of a loop    ##########
    next state              ######    next state              ######

Two values never share a buffer while both are needed. A wish for that is refused, and the program
needs a copy. The refusal names the two values that are in each other's way.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterator, Sequence
from enum import StrEnum

from lowtide.analysis.flat_schedule import CarriedState, FlatSchedule
from lowtide.ir import Opcode
from lowtide.records import dataclass

Segment = tuple[int, int, int, int]
"""A stretch in which a buffer is taken: first and last position, both included, and the values
that it holds at these two."""


class WishKind(StrEnum):
    """The reason for which two values have to lie in one buffer."""

    STATE = "loop state"
    """The element that a loop body returns replaces the one that it was given."""
    INITIAL = "loop entry"
    """The initial value becomes the state of the loop."""
    BRANCH = "branch result"
    """What a branch returns becomes the result of the conditional."""
    IN_PLACE = "in place"
    """An operation writes into an operand."""
    ALIAS = "aliased output"
    """The output is written over an argument."""
    OUTPUT = "output"
    """The output has storage of its own; here only one value is involved."""


@dataclass(frozen=True, slots=True)
class Wish:
    """`after` is to take the place of `before`.

    `number` is that of the join or of the overwrite in the flat schedule, or of the output
    leaf. `part` is, of a join, the position in its list of leaves, and `branch` that of the branch.
    """

    kind: WishKind
    number: int
    part: int
    before: int
    after: int
    branch: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A wish that cannot be granted.

    `held` is needed up to position `until`, where `taken`, to lie in the same buffer, is there
    from position `since` on. Where `held` is negative, it is not for a conflict in time: the value
    may never be overwritten, or its storage belongs to an argument or output already.
    """

    wish: Wish
    held: int = -1
    until: int = -1
    taken: int = -1
    since: int = -1


@dataclass(frozen=True, eq=False, slots=True)
class Colocation:
    """The buffers of a flattened program.

    `segments[b]` are the stretches in which buffer `b` is taken, in order. `buffer_of` gives the
    buffer of each value, -1 where it has none (it takes no bytes, or is read-only). `output` and
    `argument` are the numbers of the output and parameter leaves that own the buffer's storage,
    -1 for neither. `refusals` are the wishes that were not granted.
    """

    nbytes: tuple[int, ...]
    segments: tuple[tuple[Segment, ...], ...]
    buffer_of: tuple[int, ...]
    output: tuple[int, ...]
    argument: tuple[int, ...]
    refusals: tuple[Refusal, ...]


def colocate(
    flat: FlatSchedule,
    aliases: Sequence[tuple[int, int]],
    *,
    owns_results: bool,
    save_memory: bool = True,
    share_copies: bool = True,
) -> Colocation:
    """Return the buffers of a program whose output leaves overwrite parameter leaves.

    `aliases` are pairs (output leaf, parameter leaf). With `owns_results`, each output leaf has a
    buffer of its own. Outputs are live up to the position behind the last one. Without
    `save_memory`, values share only where they have to; without `share_copies`, a copy does not
    stay where its operand was.
    """
    work = StorageClasses(flat)
    work.claim(aliases, owns_results=owns_results)
    work.grant(wishes(flat, aliases))
    if save_memory:
        work.write_in_place(share_copies=share_copies)
    return work.result()


def wishes(flat: FlatSchedule, aliases: Sequence[tuple[int, int]]) -> list[Wish]:
    """Return what has to share a buffer, the largest values first."""
    found = [*_of_joins(flat), *_of_overwrites(flat), *_of_aliases(flat, aliases)]
    nbytes = flat.values.nbytes
    found = [wish for wish in found if nbytes[wish.after]]
    return sorted(found, key=lambda wish: -nbytes[wish.after])


def _of_joins(flat: FlatSchedule) -> Iterator[Wish]:
    for number, join in enumerate(flat.joins):
        if isinstance(join, CarriedState):
            for part, values in enumerate(zip(join.initial, join.state, join.updated, strict=True)):
                initial, state, updated = values
                yield Wish(WishKind.STATE, number, part, state, updated)
                yield Wish(WishKind.INITIAL, number, part, initial, state)
            continue
        for branch, returned in enumerate(join.returned):
            for part, (value, final) in enumerate(zip(returned, join.final, strict=True)):
                yield Wish(WishKind.BRANCH, number, part, value, final, branch)


def _of_overwrites(flat: FlatSchedule) -> Iterator[Wish]:
    for number, overwrite in enumerate(flat.overwrites):
        yield Wish(WishKind.IN_PLACE, number, 0, overwrite.read, overwrite.made)


def _of_aliases(flat: FlatSchedule, aliases: Sequence[tuple[int, int]]) -> Iterator[Wish]:
    for leaf, parameter in aliases:
        yield Wish(WishKind.ALIAS, leaf, 0, flat.parameters[parameter], flat.outputs[leaf])


class StorageClasses:
    """Union-find over values; each class knows its segments and the storage it is bound to."""

    def __init__(self, flat: FlatSchedule) -> None:
        self.flat = flat
        self.values = flat.values
        self.parent = list(range(len(self.values.nbytes)))
        self.segments: dict[int, list[Segment]] = {}
        self.output: dict[int, int] = {}
        self.argument: dict[int, int] = {}
        self.refusals: list[Refusal] = []
        self.same: set[tuple[int, int]] = set()
        """Pairs of values that are equal, so that both can be there at once."""
        self.in_place = {
            (read, made) for read, made, position in flat.shares if flat.ends(read, position)
        }
        """Pairs (value that dies, value made there) that may touch in one buffer."""
        self._allow_joins()

    def _allow_joins(self) -> None:
        for x in self.flat.overwrites:
            if x.alone and self.flat.ends(x.read, x.position):
                self.in_place.add((x.read, x.made))
        for join in self.flat.joins:
            if isinstance(join, CarriedState):
                self.in_place.update(zip(join.updated, join.final, strict=True))
                self.in_place.update(zip(join.initial, join.state, strict=True))
                for state, final in zip(join.state, join.final, strict=True):
                    self._merge(state, final, forced=True)

    # -- classes -------------------------------------------------------------------------------

    def find(self, value: int) -> int:
        """Return the value that stands for the class of `value`."""
        parent = self.parent
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    def segments_of(self, root: int) -> list[Segment]:
        """Return when the buffer of a class is taken; `root` stands for the class."""
        found = self.segments.get(root)
        if found is None:
            found = [(first, last, root, root) for first, last in self.flat.stretches_of(root)]
        return found

    def merge(self, a: int, b: int) -> bool:
        """Put two values in one buffer; return False, and do nothing, where they interfere."""
        return not self.values.nbytes[a] or self._merge(a, b) is None

    def merge_equal(self, value: int, copy: int) -> bool:
        """Put a value and its copy in one buffer, where both are there until the copy changes."""
        first, last = self.values.first, self.values.last
        if last[value] >= last[copy] and last[value] != first[copy]:
            return False
        pair = value, copy
        self.same.add(pair)
        if self._merge(value, copy) is None:
            return True
        self.same.discard(pair)  # the copy stays, and is no longer equal once it changes
        return False

    def _merge(self, a: int, b: int, *, forced: bool = False) -> tuple[int, int, int, int] | None:
        """Put two values in one buffer, or return what is in the way, as in `Refusal`."""
        values = self.values
        if values.read_only[a] or values.read_only[b] or values.space[a] != values.space[b]:
            return _NOT_IN_TIME
        a, b = self.find(a), self.find(b)
        if a == b:
            return None
        if self._bound(a) and self._bound(b):
            return _NOT_IN_TIME
        segments, conflict = self._united(self.segments_of(a), self.segments_of(b), forced)
        if conflict is not None:
            return conflict
        self.parent[b] = a
        self.segments.pop(b, None)
        self.segments[a] = segments
        for storage in (self.output, self.argument):
            if b in storage:
                storage[a] = storage.pop(b)
        return None

    def _bound(self, root: int) -> bool:
        return root in self.output or root in self.argument

    def _united(
        self, a: list[Segment], b: list[Segment], forced: bool
    ) -> tuple[list[Segment], tuple[int, int, int, int] | None]:
        """As `_join`; where the shorter list falls into gaps of the longer one, put it there."""
        long, short = (a, b) if len(a) >= len(b) else (b, a)
        if len(long) < _LONG or any(not _is_gap(long, segment) for segment in short):
            return self._join(a, b, forced)
        for segment in short:
            insort(long, segment)
        return long, None

    def _join(
        self, a: list[Segment], b: list[Segment], forced: bool
    ) -> tuple[list[Segment], tuple[int, int, int, int] | None]:
        """The segments of both, those that touch made one, and what stands against it."""
        joined: list[Segment] = []
        for segment in sorted(a + b):
            if not joined or joined[-1][1] < segment[0]:
                joined.append(segment)
                continue
            before = joined[-1]
            pair = before[3], segment[2]
            touches = before[1] == segment[0] and pair in self.in_place
            if not touches and not forced and pair not in self.same:
                return [], (before[3], before[1], segment[2], segment[0])
            end = segment if segment[1] >= before[1] else before
            joined[-1] = (before[0], end[1], before[2], end[3])
        return joined, None

    # -- what execution wants ------------------------------------------------------------------

    def claim(self, aliases: Sequence[tuple[int, int]], *, owns_results: bool) -> None:
        """Bind argument and output leaves to the values that have to lie in their storage."""
        flat = self.flat
        for _, parameter in aliases:
            self.argument[self.find(flat.parameters[parameter])] = parameter
        aliased = {leaf for leaf, _ in aliases}
        for leaf, value in enumerate(flat.outputs):
            if leaf in aliased:
                continue
            root = self.find(value)
            if not self.values.read_only[value] and not self._bound(root):
                self.output[root] = leaf
            elif owns_results and self.values.nbytes[value]:
                self.refusals.append(Refusal(Wish(WishKind.OUTPUT, leaf, 0, value, value)))

    def grant(self, wanted: Sequence[Wish]) -> None:
        """Merge what has to share a buffer, in this order, and note what cannot."""
        for wish in wanted:
            conflict = self._merge(wish.before, wish.after)
            if conflict is not None:
                self.refusals.append(Refusal(wish, *conflict))

    def fixed_classes(self) -> frozenset[int]:
        """Return the classes that lie in storage of arguments or in the state of loops."""
        states = [
            state
            for join in self.flat.joins
            if isinstance(join, CarriedState)
            for state in join.state
        ]
        return frozenset([*self.argument, *map(self.find, states)])

    # -- what saves memory ---------------------------------------------------------------------

    def write_in_place(self, *, share_copies: bool) -> None:
        """Let results take the place of operands that die, where nothing is in the way."""
        for read, made, position in self.flat.shares:
            is_copy = self.flat.instructions[position].opcode is Opcode.COPY
            if (read, made) in self.in_place and (share_copies or not is_copy):
                self.merge(read, made)

    def result(self) -> Colocation:
        """Return the classes as buffers, numbered by their first values."""
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
            tuple([values.nbytes[root] for root in number]),
            tuple([tuple(self.segments_of(root)) for root in number]),
            tuple(buffer_of),
            tuple([self.output.get(root, -1) for root in number]),
            tuple([self.argument.get(root, -1) for root in number]),
            tuple(self.refusals),
        )


_NOT_IN_TIME = (-1, -1, -1, -1)

_LONG = 16
"""The number of segments from which on lists are not merged as a whole."""


def _is_gap(segments: list[Segment], segment: Segment) -> bool:
    """Whether a segment neither meets nor touches any of a sorted list."""
    place = bisect(segments, segment)
    if place and segments[place - 1][1] >= segment[0]:
        return False
    return place == len(segments) or segment[1] < segments[place][0]
