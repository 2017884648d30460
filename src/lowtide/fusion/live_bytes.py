"""Live bytes at each place of an order of kernels, and their change when two become one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import lifetimes, step_bytes
from lowtide.fusion.access import Access
from lowtide.fusion.cluster import KernelKind
from lowtide.fusion.kernels import FusedKernel
from lowtide.ir import Instruction
from lowtide.records import dataclass

Int64Array: TypeAlias = npt.NDArray[np.int64]

_OVERWRITING: Final = frozenset(
    {
        KernelKind.CONTRACTION,
        KernelKind.LOOP,
        KernelKind.REDUCTION,
        KernelKind.ROWS,
        KernelKind.UPDATE,
    }
)
"""Kernels whose results may take the place of what they read in the same order."""

_MOST_READERS: Final = 32
"""Readers of a value among which the last but one is looked for."""


@dataclass(frozen=True, eq=False, slots=True)
class Change:
    """The change of the bytes that live from place `start` on, where two kernels are merged.

    `late` says that both run at the place of the second. `added` has an entry for each place,
    `shared` are the bytes of results that take over an operand, `ends` where operands end.
    """

    start: int
    late: bool
    added: Int64Array
    shared: int
    ends: Mapping[int, int]

    @property
    def end(self) -> int:
        """The place of the second kernel."""
        return self.start + len(self.added) - 1

    @property
    def place(self) -> int:
        """The place of both."""
        return self.end if self.late else self.start

    @property
    def area(self) -> int:
        """Bytes times places."""
        return int(self.added.sum())


@final
class Lives:
    """The bytes that live at each place, results that take over an operand counted once.

    `value` has the number of the buffer of each array, `place` says where a node of the graph runs.
    """

    def __init__(
        self,
        graph: MemoryGraph,
        order: Int64Array,
        value: Mapping[Instruction, int],
        place: Callable[[int], int],
    ) -> None:
        self._value = value
        self._place = place
        self._consumers = graph.consumers.rows()
        self._bytes: list[int] = graph.buffer_bytes.tolist()
        self._last: list[int] = lifetimes(graph, order)[2].tolist()
        self._live = step_bytes(graph, order)
        self._shared: dict[int, int] = {}

    def start(self, kernel: FusedKernel, place: int) -> None:
        """Take a kernel as one of those that there are."""
        ends = {self._value[x]: self._last[self._value[x]] for x in kernel.inputs}
        self._shared[place] = self._taken_over(kernel, place, ends)

    def nbytes(self, value: Instruction) -> int:
        """Return the bytes of an array, 0 if it has none of its own."""
        return self._bytes[self._value[value]]

    def _taken_over(self, kernel: FusedKernel, place: int, ends: Mapping[int, int]) -> int:
        """Bytes of results that may take the place of an operand which dies."""
        if kernel.kind not in _OVERWRITING:
            return 0
        results = list(kernel.outputs.items())
        dying: dict[tuple[int, Access], int] = defaultdict(int)
        for value, read in kernel.inputs.items():
            if ends[self._value[value]] <= place and read.access is not None:
                dying[self.nbytes(value), read.access] += 1
        total = 0
        for value, access in results:
            nbytes = self.nbytes(value)
            if nbytes and dying[nbytes, access]:
                dying[nbytes, access] -= 1
                total += nbytes
        return total

    # -- two kernels as one --------------------------------------------------------------------

    def change(
        self,
        kernels: tuple[FusedKernel, FusedKernel],
        nodes: tuple[int, int],
        both: FusedKernel,
        late: bool,
    ) -> Change:
        """Return what merging two kernels does, `late` at the place of the second."""
        first, second = kernels
        start, end = self._place(nodes[0]), self._place(nodes[1])
        added = np.zeros(end + 1 - start, np.int64)
        ends = {self._value[x]: self._last[self._value[x]] for x in both.inputs}
        for value in first.outputs:
            if value not in both.outputs:
                added[-1 if late else 0 :] -= self.nbytes(value)
        if late:
            for value in first.outputs:
                added[:-1] -= self.nbytes(value)
            for x in {self._value[x]: None for x in first.inputs}:
                if start <= ends[x] < end:
                    added[ends[x] + 1 - start :] += self._bytes[x]
                    ends[x] = end
        else:
            for value in second.outputs:
                added[:-1] += self.nbytes(value)
            for x in {self._value[x]: None for x in second.inputs}:
                if ends.get(x) == end:
                    ends[x] = max(start, self._last_of_others(x, nodes))
                    added[ends[x] + 1 - start :] -= self._bytes[x]
        place = end if late else start
        shared = self._taken_over(both, place, ends)
        for x in (start, end):
            added[x - start] += self._shared.get(x, 0)
        added[place - start] -= shared
        return Change(start, late, added, shared, ends)

    def _last_of_others(self, value: int, nodes: tuple[int, int]) -> int:
        """The last place where others read a value; that of the second where it is not known."""
        readers = self._consumers[value]
        end = self._place(nodes[1])
        if len(readers) > _MOST_READERS:
            return end
        places = [self._place(x) for x in readers]
        return max([x for x in places if x != end], default=0)

    def most(self, change: Change) -> int:
        """Return the bytes that would live at most, between the places of a change."""
        return int((self._live[change.start : change.end + 1] + change.added).max())

    def apply(self, change: Change) -> None:
        """Take a change as made."""
        self._live[change.start : change.end + 1] += change.added
        self._shared[change.start] = self._shared[change.end] = 0
        self._shared[change.place] = change.shared
        for value, end in change.ends.items():
            self._last[value] = end

    def move(self, before: int, after: int, results: int, operands: list[int]) -> None:
        """Note that a node which makes so many bytes runs at another place."""
        if after < before:
            self._live[after:before] += results
        else:
            self._live[before:after] -= results
        for value in operands:
            self._last[value] = max(self._last[value], after)
