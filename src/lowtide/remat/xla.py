"""XLA's rematerialization, as a baseline: recompute mode of HloRematerialization (OpenXLA).

It walks over a schedule once. Where too much is held, it looks for the block of consecutive
instructions that has run and frees most, and clones it in front of its next user. It differs in one
thing, to its advantage: what an operation takes over in place is not counted twice, as everywhere
in memory graphs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.remat.expand import ExpandedRows
from lowtide.remat.tables import Int64Array
from lowtide.search.deadline import Deadline

BLOCK_LIMIT: Final = 50
_EFFORT_FACTOR: Final = 1
"""The search of longer blocks ends after so many times the looks that single items took."""


@dataclass(slots=True)
class _Item:
    """A run of a node: the values that it reads and makes."""

    node: int
    reads: list[int]
    makes: list[int]
    is_placed: bool = False
    is_denied: bool = False
    is_moved: bool = False
    is_dead: bool = False


@dataclass(slots=True)
class _Value:
    """What one run makes: `size` is what it is charged, `unfinished` how many users are to end."""

    buffer: int
    size: int
    item: int
    users: list[int]
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class _Block:
    items: list[int]
    cost: int


def xla_sequence(
    graph: MemoryGraph,
    order: Int64Array,
    budget: int,
    block_limit: int = BLOCK_LIMIT,
    once: Collection[int] = (),
    deadline: Deadline | None = None,
) -> Int64Array:
    """Return what XLA's algorithm makes of an order for a budget, within it or not.

    Nodes in `once` are not cloned. At the deadline the rest of the order stays as it is.
    """
    return _Walk(graph, order, budget, block_limit, once, deadline).run()


class _Walk:
    def __init__(
        self,
        graph: MemoryGraph,
        order: Int64Array,
        budget: int,
        block_limit: int,
        once: Collection[int],
        deadline: Deadline | None,
    ) -> None:
        self._rows = ExpandedRows(graph)
        self._closed = set(once)
        """Nodes that may not run again: also those that a placed one lists in control."""
        self._deadline = deadline
        self._block_limit = block_limit
        self._scratch = (graph.scratch_bytes + graph.inner_bytes).tolist()
        self._followers: list[list[int]] = [[] for _ in range(graph.node_count)]
        for node, before in enumerate(self._rows.control):
            for other in before:
                self._followers[other].append(node)
        self._live_out = graph.live_out.tolist()
        size = np.where(graph.live_out, 0, graph.buffer_bytes)
        self._size = size.tolist()
        self._limit = max(0, budget - int(graph.buffer_bytes[graph.live_out].sum()))
        self._items: list[_Item] = []
        self._values: list[_Value] = []
        self._first: dict[int, int] = {}
        self._usage = 0
        self._build(graph, order.tolist())
        self._sequence = list(range(len(self._items)))
        self._rank = list(range(len(self._items)))

    def _build(self, graph: MemoryGraph, order: list[int]) -> None:
        latest: dict[int, int] = {}
        for buffer in np.flatnonzero(graph.producer < 0).tolist():
            latest[buffer] = self._value(buffer, -1)
            self._usage += self._size[buffer]
        for node in order:
            number = len(self._items)
            reads = [latest[buffer] for buffer in self._rows.reads[node]]
            for value in reads:
                self._use(value, number)
            makes = [self._value(buffer, number) for buffer in self._rows.makes[node]]
            latest.update({self._values[value].buffer: value for value in makes})
            self._items.append(_Item(node, reads, makes))
            self._first[node] = number

    def _value(self, buffer: int, item: int) -> int:
        self._values.append(_Value(buffer, self._size[buffer], item, []))
        return len(self._values) - 1

    def _use(self, value: int, item: int) -> None:
        self._values[value].users.append(item)
        self._values[value].unfinished += 1

    def run(self) -> Int64Array:
        """Walk over the items; clones are inserted behind the walk and walked like any other."""
        at = 0
        while at < len(self._sequence):
            number = self._sequence[at]
            item = self._items[number]
            item.is_placed = True
            self._closed.update(self._rows.control[item.node])
            self._usage += sum([self._values[value].size for value in item.makes])
            charged = sum([self._values[value].size for value in item.makes])
            if charged + self._scratch[item.node] > 0:
                self._lower(number)
            self._finish(item)
            at += 1
        self._remove_dead()
        runs = [self._items[x].node for x in self._sequence if not self._items[x].is_dead]
        return np.array(runs, np.int64)

    def _lower(self, number: int) -> None:
        """Clone blocks until what is held during an item is within the limit, or none helps."""
        item = self._items[number]
        shortest = longest = 1
        looks, more_looks = 0, 0
        while self._usage + self._scratch[item.node] - self._taken(item) > self._limit:
            if self._deadline is not None and self._deadline.passed:
                return
            best, count = self._best_block(number, shortest, longest)
            if longest == 1:
                looks += count
            else:
                more_looks += count
            if best is not None:
                self._apply(best)
                shortest = longest = 1
                continue
            shortest, longest = longest + 1, 2 * longest
            if longest > self._block_limit or more_looks > _EFFORT_FACTOR * looks:
                return

    def _taken(self, item: _Item) -> int:
        """Bytes of operands that end here and whose storage a result takes over, one by one."""
        taken: set[int] = set()
        makers: set[int] = set()
        total = 0
        values = {self._values[value].buffer: value for value in item.reads}
        for read, made in self._rows.pairs[item.node]:
            value = self._values[values[read]]
            if read not in taken and made not in makers and value.unfinished == 1:
                taken.add(read)
                makers.add(made)
                total += value.size
        return total

    def _best_block(self, current: int, shortest: int, longest: int) -> tuple[_Block | None, int]:
        """The block of least cost, the first of equal ones, and how many were looked at."""
        in_use = {*self._items[current].reads, *self._items[current].makes}
        placed = self._sequence[: self._rank[current]]
        best: _Block | None = None
        looks = 0
        for start in range(len(placed) - shortest + 1):
            members: list[int] = []
            gain = 0
            made: set[int] = set()
            for number in placed[start : start + longest]:
                member = self._items[number]
                step = self._gain(member, in_use, made)
                if step is None:
                    break
                members.append(number)
                made.update(member.makes)
                gain += step
                if len(members) < shortest:
                    continue
                looks += 1
                if gain > 0:
                    cost = self._limit // gain if self._has_placed_user(members) else 0
                    if best is None or cost < best.cost:
                        best = _Block(members.copy(), cost)
        return best, looks

    def _gain(self, member: _Item, in_use: set[int], made: set[int]) -> int | None:
        """Bytes freed by cloning a member later, None where no block may have it."""
        if member.is_denied or member.node in self._closed:
            return None
        gain = 0
        for number in member.makes:
            value = self._values[number]
            if self._live_out[value.buffer] or number in in_use:
                return None
            gain += value.size if value.unfinished else 0
        for number in member.reads:
            if number not in made and not self._values[number].unfinished:
                gain -= self._values[number].size
        return gain

    def _has_placed_user(self, members: list[int]) -> bool:
        return any(
            self._items[user].is_placed
            for number in members
            for value in self._items[number].makes
            for user in self._values[value].users
        )

    def _apply(self, block: _Block) -> None:
        for number in reversed(block.items):
            later = [
                (value, user)
                for value in self._items[number].makes
                for user in self._values[value].users
                if not self._items[user].is_placed
            ]
            if later:
                self._clone(number, later)

    def _clone(self, number: int, later: list[tuple[int, int]]) -> None:
        """Clone an item for its users that are still to come."""
        item = self._items[number]
        copy = len(self._items)
        place = self._place(item, later)
        for value in item.reads:
            if not self._values[value].unfinished:
                self._usage += self._values[value].size
            self._use(value, copy)
        makes = [self._value(self._values[value].buffer, copy) for value in item.makes]
        self._items.append(_Item(item.node, list(item.reads), makes))
        replaced = dict(zip(item.makes, makes, strict=True))
        for value, user in later:
            self._redirect(value, replaced[value], user)
        for value in item.makes:
            if not self._values[value].unfinished:
                self._usage -= self._values[value].size
        if not any(self._values[value].users for value in item.makes):
            item.is_dead = True
            self._items[copy].is_moved = True
            self._items[copy].is_denied = item.is_moved
        self._sequence.insert(place, copy)
        self._rank.append(place)
        for behind in range(place, len(self._sequence)):
            self._rank[self._sequence[behind]] = behind

    def _redirect(self, value: int, new: int, user: int) -> None:
        self._values[value].users.remove(user)
        self._values[value].unfinished -= 1
        self._use(new, user)
        reads = self._items[user].reads
        reads[reads.index(value)] = new

    def _place(self, item: _Item, later: list[tuple[int, int]]) -> int:
        """Before the users, before others that still read an operand, before who waits for it."""
        users = [user for _, user in later]
        users += [user for value in item.reads for user in self._values[value].users]
        users += [self._first[node] for node in self._followers[item.node]]
        return min([self._rank[user] for user in users if not self._items[user].is_placed])

    def _finish(self, item: _Item) -> None:
        for value in item.reads:
            self._values[value].unfinished -= 1
            if not self._values[value].unfinished:
                self._usage -= self._values[value].size
        for value in item.makes:
            if not self._values[value].unfinished:
                self._usage -= self._values[value].size

    def _remove_dead(self) -> None:
        """Mark runs that nothing reads, of nodes that have another one, from the last back."""
        runs: dict[int, int] = {}
        for item in self._items:
            runs[item.node] = runs.get(item.node, 0) + 1
        for number in reversed(self._sequence):
            item = self._items[number]
            users = [user for value in item.makes for user in self._values[value].users]
            alive = any(not self._items[user].is_dead for user in users)
            kept = any(self._live_out[self._values[value].buffer] for value in item.makes)
            item.is_dead = runs[item.node] > 1 and not alive and not kept
            runs[item.node] -= item.is_dead
