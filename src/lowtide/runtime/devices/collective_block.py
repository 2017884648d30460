"""Blocks of collectives: what each device does there, as words for machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import sizeof
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.ir.collective import CollectiveBuffer, CollectiveStep, DeviceCollective, Whose
from lowtide.ir.literal import DTYPES
from lowtide.ir.thunk import CollectiveThunk, KernelEntry
from lowtide.runtime.devices.block import NOBODY, CollectiveRecord, DeviceWork

DIVIDED_BYTES: Final = 1 << 17
"""Arrays of a group of so many bytes together are worked on by all of its devices at once; for
fewer the last one that comes does all, which wakes the others once and not twice."""


class CollectiveBlock:
    """The words of one collective, in memory for as long as this.

    `workspace` is how many words of it a run needs. `address` gives that of a kernel's function;
    devices are numbered through `replicas` and `partitions`.
    """

    def __init__(
        self,
        thunk: CollectiveThunk,
        kernels: Sequence[KernelEntry],
        address: Callable[[str], int],
        replicas: int,
        partitions: int,
    ) -> None:
        self.name = thunk.name
        self.collective = thunk.collective
        self._kernels = kernels
        self._function = address
        self._partitions = partitions
        area = len(thunk.buffers) + 1
        devices = replicas * partitions
        groups = [self.collective.group_of(x) for x in range(devices)]
        self._numbers = _numbers(self.collective, devices, max(map(len, groups)))
        found = [self._runs(device, group) for device, group in enumerate(groups)]
        self.workspace = area + max([count for _, count in found])
        head = [area, area - 1, int(_is_divided(self.collective, groups))]
        self._words = _laid_out(head, groups, [runs for runs, _ in found])
        self.address = int(self._words.ctypes.data)

    def _runs(self, device: int, group: tuple[int, ...]) -> tuple[list[int], int]:
        """The words of what a device does, and the most buffers that a kernel gets."""
        place = group.index(device)
        sources = {target: source for source, target in self.collective.pairs}
        source = sources.get(place)
        words, count, most = [0], 0, 0
        for step in self.collective.steps:
            if step.size not in (0, len(group)) or step.sent not in (None, source is not None):
                continue
            picks = [x for y in step.buffers for x in self._picks(y, group, place, source)]
            for begin, end, function in self._parts(step, len(group), place):
                words += [function, begin, end, len(picks), *[x for pick in picks for x in pick]]
                count += 1
            most = max(most, len(picks))
        words[0] = count
        return words, most

    def _parts(self, step: CollectiveStep, size: int, place: int) -> list[tuple[int, int, int]]:
        """Of each phase of a kernel the units that a device does, and the function."""
        phases = self._kernels[step.kernel].phases
        found = []
        for phase in phases:
            begin, end = 0, phase.units
            if step.shared:
                begin, end = end * place // size, end * (place + 1) // size
            found.append((begin, end, self._function(phase.function)))
        return found

    def _picks(
        self, buffer: CollectiveBuffer, group: tuple[int, ...], place: int, source: int | None
    ) -> list[tuple[int, int]]:
        device, slot = group[place], buffer.slot
        match buffer.whose:
            case Whose.EVERY:
                return [(member, slot) for member in group]
            case Whose.OWN:
                return [(device, slot)]
            case Whose.FIRST:
                return [(group[0], slot)]
            case Whose.SOURCE:
                assert source is not None
                return [(group[source], slot)]
            case Whose.DEALT:
                return [(group[slot], place)]
        values = {
            Whose.PLACE: place * slot,
            Whose.PARTITION: device % self._partitions,
            Whose.REPLICA: device // self._partitions,
        }
        return [(NOBODY, self._number(values[buffer.whose]))]

    def _number(self, value: int) -> int:
        """The address of a number."""
        at = int(np.searchsorted(self._numbers, value))
        return int(self._numbers.ctypes.data) + self._numbers.itemsize * at


def _numbers(collective: DeviceCollective, devices: int, most: int) -> npt.NDArray[np.int32]:
    """All numbers of 32 bits that kernels of a collective may be given, in order."""
    found = set(range(devices))
    for step in collective.steps:
        strides = [x.slot for x in step.buffers if x.whose is Whose.PLACE]
        found.update([stride * place for stride in strides for place in range(most)])
    return np.array(sorted(found), np.int32)


def _is_divided(collective: DeviceCollective, groups: Sequence[tuple[int, ...]]) -> bool:
    shapes = (*collective.operands, *collective.results)
    nbytes = sum([x.element_count * DTYPES[x.element_type].itemsize for x in shapes])
    return nbytes * max(map(len, groups)) >= DIVIDED_BYTES


def _laid_out(
    head: Sequence[int], groups: Sequence[tuple[int, ...]], runs: Sequence[Sequence[int]]
) -> npt.NDArray[np.int64]:
    """The words of a block; equal groups are there once."""
    start = (sizeof(CollectiveRecord) + sizeof(DeviceWork) * len(groups)) // 8
    tail: list[int] = []
    places: dict[tuple[int, ...], int] = {}
    for group in groups:
        if group not in places:
            places[group] = start + len(tail)
            tail += [len(group), *group]
    pairs = []
    for group, own in zip(groups, runs, strict=True):
        pairs.append((places[group], start + len(tail)))
        tail += own
    words = np.zeros(start + len(tail), np.int64)
    address = int(words.ctypes.data)
    places_of = [address + 8 * place for pair in pairs for place in pair]
    words[:] = [*head, *places_of, *tail]
    return words
