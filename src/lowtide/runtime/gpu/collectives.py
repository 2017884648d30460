"""Collectives of a program with those on other graphics processors of this process.

```
 device 0   ▇▇▇ kernels ┃ meet ┃▇▇ reads the memory of 1 ┃ meet ┃▇▇▇ kernels
 device 1   ▇▇▇▇▇▇      ┃      ┃▇▇ reads the memory of 0 ┃      ┃▇▇▇
```

Each device has a thread. When all of a group have come, nothing of theirs runs; each starts the
kernels of its steps, which are given addresses of the others' memory; when all have done that, each
goes on. What is shared among processors, an all-reduce, the first device of a group does: it writes
the result of all, so that a result may lie over what was brought.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, final

import numpy as np

from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import CollectiveThunk, collective_thunks
from lowtide.runtime.cpu.native import native
from lowtide.runtime.devices.block import NOBODY
from lowtide.runtime.devices.collective_block import CollectiveBlock, Pick, numbers_of, steps_of
from lowtide.runtime.devices.rendezvous import Participant, participant_for
from lowtide.runtime.gpu.driver import Driver
from lowtide.runtime.gpu.program import GpuProgram

_WORD: Final = 4
"""Bytes of a number that a kernel is given."""

Address = Callable[[BufferSlice], int]
"""Where a slice lies on the device."""


@final
class DeviceCollectives:
    """What one device of a program does in collectives; `functions` are its kernels', by symbol.

    Numbers that kernels are given lie in memory of the device, some bytes for a program, which no
    plan counts.
    """

    def __init__(
        self, program: GpuProgram, driver: Driver, functions: Mapping[str, int], stream: int
    ) -> None:
        self.program, self.driver = program, driver
        self._functions, self._stream = functions, stream
        found = {x.name: x for x in collective_thunks(program.thunks)}
        numbers = [numbers_of(x.collective, program.devices) for x in found.values()]
        self._numbers = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int32)
        self._base = 0
        if numbers:
            driver.reach(program.devices)
            self._base = driver.allocate(self._numbers.nbytes)
            driver.upload(self._base, self._numbers.view(np.uint8), stream)
            driver.synchronize(stream)

    def close(self) -> None:
        """Give the memory on the device back."""
        if self._base:
            self.driver.free(self._base)
        self._base = 0

    def run(self, thunk: CollectiveThunk, address: Address) -> None:
        """Meet the others, and do what is this device's; nothing of it runs before and after.

        Raises InputError where the thread is no device of a run, and RendezvousError.
        """
        participant = participant_for(self.program)
        place = participant.rendezvous.place(thunk.name, lambda: _place(thunk, self.program))
        shown = participant.rendezvous.shown
        shown[participant.number] = tuple([address(x) for x in thunk.buffers])
        scratch = 0 if thunk.scratch is None else address(thunk.scratch)
        self._meet(place, participant)
        group = thunk.collective.group_of(participant.number)
        for step, picks in steps_of(thunk.collective, participant.number, self.program.partitions):
            if not step.shared or participant.number == group[0]:
                addresses = [self._address(x, shown) for x in picks]
                self._launch(step.kernel, [*addresses, scratch])
        self.driver.synchronize(self._stream)
        self._meet(place, participant)

    def _meet(self, place: CollectiveBlock, participant: Participant) -> None:
        """Wait for the others of the group."""
        words = np.zeros(place.workspace, np.uint64)
        if not native().meet(place.address, words, participant.address):
            raise participant.rendezvous.error({place.address: place})

    def _address(self, pick: Pick, shown: Sequence[tuple[int, ...]]) -> int:
        device, slot = pick
        if device != NOBODY:
            return shown[device][slot]
        return self._base + _WORD * int(np.searchsorted(self._numbers, slot))

    def _launch(self, kernel: int, addresses: Sequence[int]) -> None:
        for launch in self.program.kernels[kernel].launches:
            function = self._functions[launch.function]
            self.driver.launch(function, launch.grid, addresses, self._stream)


def _place(thunk: CollectiveThunk, program: GpuProgram) -> CollectiveBlock:
    """Where the devices of a collective wait for one another; nothing else is done there."""
    alone = replace(thunk, collective=replace(thunk.collective, steps=(), operands=(), results=()))
    return CollectiveBlock(alone, (), lambda symbol: 0, program.replicas, program.partitions)
