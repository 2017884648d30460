"""One collective between the ranks of a group: who takes part, and arrays as bytes, in pieces."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np

from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape
from lowtide.records import dataclass
from lowtide.runtime.mpi.world import World


@dataclass(frozen=True, slots=True)
class RankCollective:
    """A collective operation of a program, or the question for the number of the device.

    `name` is that of its instruction, and `place` says where that comes from. `kind` is the opcode
    of the operation in one step. `operands` are the shapes of what a rank brings, `results` of what
    it receives. `groups` has the numbers of the devices that meet, in order of the group: each
    device is in one. `pairs` are sources and targets of a collective-permute, as places in the
    group. `reducer` is the operation by which values are combined.
    """

    name: str
    place: str
    kind: Opcode
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] = ()
    dimension: int | None = None
    reducer: Opcode | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.kind.value} (%{self.name})"

    def group_of(self, device: int) -> tuple[int, ...]:
        """Return the group that has a device, which may be alone."""
        return next((group for group in self.groups if device in group), (device,))


PIECE_BYTES: Final = 1 << 30
"""The most bytes of one message: counts of older MPI have 31 bits."""

_LARGEST_TAG: Final = 32767
"""Every MPI has tags up to this."""

Requests: TypeAlias = "list[Any]"


@final
class Link:
    """What one rank sends to and receives from its group in one collective.

    Ranks are named by their places in the group. Messages of two ranks arrive in the order in which
    they are sent, and those of different instructions have different tags as a rule.
    """

    def __init__(
        self,
        world: World,
        collective: RankCollective,
        wait: Callable[[RankCollective, Requests], None],
    ) -> None:
        self.collective = collective
        self.group = collective.group_of(world.rank)
        self.place = self.group.index(world.rank)
        self.count = len(self.group)
        self._world = world
        self._wait = wait
        self._tag = zlib.crc32(collective.name.encode()) & _LARGEST_TAG

    @property
    def others(self) -> list[int]:
        """The places of the others, from the next one on, so that not all send to one at once."""
        return [(self.place + step) % self.count for step in range(1, self.count)]

    def send(self, array: Array, place: int) -> Requests:
        """Send an array, whose bytes lie one after another and stay until the requests are done."""
        send, rank = self._world.data.Isend, self.group[place]
        return [send([x, self._world.mpi.BYTE], rank, self._tag) for x in _pieces(array)]

    def receive(self, array: Array, place: int) -> Requests:
        """Receive an array of the same size into such a one, which is written until then."""
        receive, rank = self._world.data.Irecv, self.group[place]
        return [receive([x, self._world.mpi.BYTE], rank, self._tag) for x in _pieces(array)]

    def swap(self, sent: Sequence[Array], received: Sequence[Array]) -> Requests:
        """Send the array at each other place to the rank there, and receive one of it."""
        requests = []
        for place in reversed(self.others):
            requests += self.receive(received[place], place)
        for place in self.others:
            requests += self.send(sent[place], place)
        return requests

    def wait(self, requests: Requests) -> None:
        """Wait until they are done; raises RendezvousError where others fail or do not come."""
        self._wait(self.collective, requests)


def _pieces(array: Array) -> list[Array]:
    """The bytes of an array; none of an empty one, of which both sides know."""
    if not array.size:
        return []
    flat = array.reshape(-1).view(np.uint8)
    return [flat[start : start + PIECE_BYTES] for start in range(0, flat.size, PIECE_BYTES)]
