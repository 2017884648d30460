"""One computation as integer arrays: what an order of its instructions costs in memory.

Schedulers, bounds and recomputation read this and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from itertools import chain, pairwise
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.dataflow import ComputationDataflow, ValueKind
from lowtide.analysis.donation import Alias
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Infeed, Outfeed
from lowtide.records import dataclass

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@final
class Lists:
    """One list of numbers per row, end to end: row `i` is `items[starts[i]:starts[i + 1]]`.

    Few rows stay lists, as which small graphs are read; arrays are made of them when asked for.
    """

    __slots__ = ("_arrays", "_rows", "_transposed")

    def __init__(self, rows: Sequence[Collection[int]]) -> None:
        is_few = len(rows) <= _FEW_ROWS
        self._rows = [list(x) for x in rows] if is_few else None
        self._arrays = None if is_few else _end_to_end(rows)
        self._transposed: tuple[int, Rows] | None = None

    @property
    def starts(self) -> Int32Array:
        """Where each row begins, and where the last one ends."""
        return self._both()[0]

    @property
    def items(self) -> Int32Array:
        """The numbers of all rows."""
        return self._both()[1]

    def _both(self) -> tuple[Int32Array, Int32Array]:
        if self._arrays is None:
            assert self._rows is not None
            self._arrays = _end_to_end(self._rows)
        return self._arrays

    def rows(self) -> Rows:
        """Return the rows, which are not to be changed."""
        if self._rows is not None:
            return self._rows
        items, starts = self.items.tolist(), self.starts.tolist()
        return [items[a:b] for a, b in pairwise(starts)]

    def transposed(self, count: int) -> Rows:
        """Return for each of `count` numbers the rows that contain it, ascending: not to change."""
        if self._transposed is not None and self._transposed[0] == count:
            return self._transposed[1]
        found: list[list[int]] = [[] for _ in range(count)]
        for row, items in enumerate(self.rows()):
            for item in items:
                found[item].append(row)
        if self._rows is not None:
            self._transposed = count, found
        return found

    def row_numbers(self) -> Int32Array:
        """Return for each item the number of its row."""
        count = len(self.starts) - 1
        return np.repeat(np.arange(count, dtype=np.int32), np.diff(self.starts))


def lists(rows: Sequence[Collection[int]]) -> Lists:
    """Return the rows end to end."""
    return Lists(rows)


Rows: TypeAlias = Sequence[Sequence[int]]

_FEW_ROWS: Final = 256
"""So many lists take little memory, and less time to read than arrays of them."""


def _end_to_end(rows: Sequence[Collection[int]]) -> tuple[Int32Array, Int32Array]:
    starts = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(list(map(len, rows)), out=starts[1:])
    return starts, np.array(list(chain.from_iterable(rows)), np.int32)


@dataclass(frozen=True, eq=False, slots=True)
class MemoryGraph:
    """A scheduling problem.

    Nodes are the instructions, in order of creation. A buffer is a value that takes memory (or
    none: bytes 0), made by its `producer` (-1: there from the start) and read by its consumers.
    It is live from the step of its producer to the last one of a consumer, both included; to the
    end where `live_out`. In the step of `shares[i, 0]`, buffer `shares[i, 2]` may take over the
    storage of buffer `shares[i, 1]`, of equal bytes, if that one is not needed later.

    Per node:
      operands: the nodes whose values it takes, each once, in order.
      control: further nodes that come before it.
      scratch_bytes: bytes held while it runs, its own.
      inner_bytes: likewise, by the computations that it calls, its results not included.
      name_rank: its place among the nodes sorted by name.
      is_scalar: whether the result is an array of one element.
      is_leaf: whether it is a parameter or a constant.
      urgency: 1 to run as soon as possible, -1 as late as possible, else 0.
      seconds: how long it runs; no entry at all where that is not known.
    Per buffer:
      buffer_bytes, producer, consumers, live_out.
      alias_set: buffers of one set (0 or more) want one storage: a parameter and the result
        written over it; -1 for none.
      colour: the memory space.
      bin: the leaf of the result that the buffer is, -1 for none.
    """

    operands: Lists
    control: Lists
    scratch_bytes: Int64Array
    inner_bytes: Int64Array
    name_rank: Int32Array
    is_scalar: BoolArray
    is_leaf: BoolArray
    urgency: Int32Array
    root: int
    buffer_bytes: Int64Array
    producer: Int32Array
    consumers: Lists
    live_out: BoolArray
    alias_set: Int32Array
    colour: Int32Array
    bin: Int32Array
    shares: Int32Array
    seconds: Float64Array = field(default_factory=lambda: np.zeros(0))

    @property
    def node_count(self) -> int:
        """The number of instructions."""
        return len(self.scratch_bytes)


def memory_graph(
    flow: ComputationDataflow, aliases: Sequence[Alias], inner_peaks: Mapping[Instruction, int]
) -> MemoryGraph:
    """Return the arrays of one computation.

    Parameter leaves in `aliases` count as buffers, other parameters and constants take no bytes.
    `inner_peaks` says what the callees of an instruction need beyond their arguments, in bytes.
    """
    nodes = flow.nodes
    counted = {flow.parameters[alias.parameter] for alias in aliases}
    alias_set, bins = _bindings(flow, aliases)
    live_out = np.zeros(len(flow.value_node), np.bool_)
    live_out[list(flow.root)] = True
    size = np.array([_bytes(flow, v, counted) for v in range(len(flow.value_node))], np.int64)
    return MemoryGraph(
        operands=lists([dict.fromkeys([flow.number[x] for x in n.operands]) for n in nodes]),
        control=lists([[flow.number[x] for x in n.control_predecessors] for n in nodes]),
        scratch_bytes=np.zeros(len(nodes), np.int64),
        inner_bytes=_inner_bytes(flow, inner_peaks),
        name_rank=_name_ranks(nodes),
        is_scalar=np.array([x.shape.is_array and x.shape.element_count == 1 for x in nodes], bool),
        is_leaf=np.array([x.opcode in _LEAVES for x in nodes], bool),
        urgency=np.array([_urgency(x) for x in nodes], np.int32),
        root=flow.number[flow.computation.root],
        buffer_bytes=size,
        producer=_producers(flow),
        consumers=_consumers(flow),
        live_out=live_out,
        alias_set=alias_set,
        colour=np.array(flow.value_space, np.int32),
        bin=bins,
        shares=_shares(flow, size),
    )


_LEAVES = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})


def _bytes(flow: ComputationDataflow, value: int, counted: Collection[int]) -> int:
    if flow.value_kind[value] is ValueKind.PARAMETER and value not in counted:
        return 0
    return 0 if flow.value_read_only[value] else flow.value_bytes[value]


def _bindings(flow: ComputationDataflow, aliases: Sequence[Alias]) -> tuple[Int32Array, Int32Array]:
    alias_set = np.full(len(flow.value_node), -1, np.int32)
    bins = np.full(len(flow.value_node), -1, np.int32)
    for leaf in reversed(range(len(flow.root))):
        bins[flow.root[leaf]] = leaf
    for number, alias in enumerate(aliases):
        alias_set[flow.parameters[alias.parameter]] = number
        alias_set[flow.root[alias.output]] = number
    return alias_set, bins


def _inner_bytes(flow: ComputationDataflow, inner_peaks: Mapping[Instruction, int]) -> Int64Array:
    inner = np.zeros(len(flow.nodes), np.int64)
    for instruction, peak in inner_peaks.items():
        node = flow.number[instruction]
        is_loop = instruction.opcode is Opcode.WHILE
        made = 0 if is_loop else sum([flow.value_bytes[v] for v in flow.makes[node]])
        inner[node] = max(0, peak - made)
    return inner


def _name_ranks(nodes: Sequence[Instruction]) -> Int32Array:
    order = sorted(range(len(nodes)), key=lambda i: nodes[i].name)
    ranks = np.empty(len(nodes), np.int32)
    ranks[order] = np.arange(len(nodes), dtype=np.int32)
    return ranks


def _urgency(instruction: Instruction) -> int:
    """An outfeed frees the other side of its channel; an infeed that waits holds memory."""
    attributes = instruction.attributes
    if isinstance(attributes, Outfeed) and attributes.config:
        return 1
    return -1 if isinstance(attributes, Infeed) and attributes.config else 0


def _producers(flow: ComputationDataflow) -> Int32Array:
    producer = np.array(flow.value_node, np.int32)
    producer[list(flow.parameters)] = -1
    return producer


def _consumers(flow: ComputationDataflow) -> Lists:
    consumers: list[list[int]] = [[] for _ in flow.value_node]
    for node, values in enumerate(flow.reads):
        for value in values:
            consumers[value].append(node)
    return lists(consumers)


def _shares(flow: ComputationDataflow, size: Int64Array) -> Int32Array:
    rows = [
        (node, read, made)
        for node, pairs in enumerate(flow.shares)
        for read, made in pairs
        if 0 < size[read] == size[made]
    ]
    return np.array(rows, np.int32).reshape(-1, 3)
