"""Blocks of collectives: what each device does there, as words for machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ctypes import sizeof
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.ir.collective import CollectiveBuffer, CollectiveStep, DeviceCollective, Whose
from lowtide.ir.literal import DTYPES
from lowtide.ir.thunk import CollectiveThunk, KernelEntry
from lowtide.runtime.devices.block import NOBODY, CollectiveRecord, DeviceWork

DIVIDED_BYTES: Final = 1 << 17
"""Arrays of a group of so many bytes together are worked on by all of its devices at once; for
fewer the last one that comes does all, which wakes the others once and not twice."""


Pick: TypeAlias = "tuple[int, int]"
"""A buffer that a kernel is given: a device, and the number of its buffer; or NOBODY, and a number
of 32 bits that lies in no buffer."""


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
        self._numbers = numbers_of(self.collective, devices)
        found = [self._runs(device, group) for device, group in enumerate(groups)]
        self.workspace = area + max([count for _, count in found])
        head = [area, area - 1, int(_is_divided(self.collective, groups))]
        self._words = _laid_out(head, groups, [runs for runs, _ in found])
        self.address = int(self._words.ctypes.data)

    def _runs(self, device: int, group: tuple[int, ...]) -> tuple[list[int], int]:
        """The words of what a device does, and the most buffers that a kernel gets."""
        words, count, most = [0], 0, 0
        for step, picks in steps_of(self.collective, device, self._partitions):
            found = [x for pick in picks for x in self._words_of(pick)]
            for begin, end, function in self._parts(step, len(group), group.index(device)):
                words += [function, begin, end, len(picks), *found]
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

    def _words_of(self, pick: Pick) -> tuple[int, int]:
        device, slot = pick
        if device != NOBODY:
            return pick
        at = int(np.searchsorted(self._numbers, slot))
        return NOBODY, int(self._numbers.ctypes.data) + self._numbers.itemsize * at


def steps_of(
    collective: DeviceCollective, device: int, partitions: int
) -> Iterator[tuple[CollectiveStep, list[Pick]]]:
    """Yield what a device does once its group has met, and the buffers that each kernel is given.

    Devices are numbered through replicas, each of so many partitions.
    """
    group = collective.group_of(device)
    place = group.index(device)
    source = {target: source for source, target in collective.pairs}.get(place)
    for step in collective.steps:
        if step.size in (0, len(group)) and step.sent in (None, source is not None):
            picks = [_picks(x, group, place, source, partitions) for x in step.buffers]
            yield step, [x for found in picks for x in found]


def _picks(
    buffer: CollectiveBuffer,
    group: tuple[int, ...],
    place: int,
    source: int | None,
    partitions: int,
) -> list[Pick]:
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
        Whose.PARTITION: device % partitions,
        Whose.REPLICA: device // partitions,
    }
    return [(NOBODY, values[buffer.whose])]


def numbers_of(collective: DeviceCollective, devices: int) -> npt.NDArray[np.int32]:
    """Return all numbers of 32 bits that kernels of a collective may be given, in order."""
    most = max([len(collective.group_of(x)) for x in range(devices)])
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
