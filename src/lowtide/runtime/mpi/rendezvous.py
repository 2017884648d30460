"""The rendezvous of one rank with others: collectives are begun, finished, and watched."""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import numpy as np

from lowtide.host_calls.memory_calls import memory_at, write_array
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode
from lowtide.runtime.devices.rendezvous import RendezvousError
from lowtide.runtime.mpi.collectives import Finish, begin
from lowtide.runtime.mpi.link import Link, RankCollective, Requests
from lowtide.runtime.mpi.world import QUICK_SECONDS, Document, World

FAILED, WAITS, GOES_ON = "failed", "waits", "goes on"
"""Kinds of notices."""


@final
class RankRendezvous:
    """What one rank does at the collectives of a program, whose device it is.

    A rank that waits for others longer than `timeout_seconds` (None: any time) fails. Where one
    fails, those that wait, or come to wait, raise RendezvousError.
    """

    def __init__(
        self, world: World, replicas: int, partitions: int, timeout_seconds: float | None
    ) -> None:
        self.world = world
        self.replicas = replicas
        self.partitions = partitions
        self.timeout_seconds = timeout_seconds
        self._begun: defaultdict[str, deque[Finish]] = defaultdict(deque)
        self._count = 0
        self._waiting: dict[int, tuple[str, int]] = {}
        self._has_told = False
        self._failure = ""

    def runner(self, collective: RankCollective, *, waits: bool) -> Callable[[int], None]:
        """Return what runs an operation, or begins it where it `waits` elsewhere.

        It is given the address of the addresses of operands and results.
        """
        if not collective.groups:
            return lambda place: self._number(collective, place)
        given = _given_in_rows if collective.kind is Opcode.RAGGED_ALL_TO_ALL else _given
        orders = [x.physical_order for x in collective.results]
        dimension = collective.dimension
        axis = None if dimension is None else orders[0].index(dimension)

        def run(place: int) -> None:
            self._count += 1
            operands, results, written = given(collective, orders, place)
            finish = begin(Link(self.world, collective, self._wait), operands, results, axis)
            if waits:
                self._begun[collective.name].append(lambda: written(finish))
            else:
                written(finish)

        return run

    def waiter(self, collective: RankCollective) -> Callable[[int], None]:
        """Return what finishes the oldest of those begun, of one instruction."""
        return lambda _: self._begun[collective.name].popleft()()

    def check(self) -> None:
        """Raise RendezvousError where this run is over since a rank failed."""
        if self._failure:
            raise RendezvousError(self._failure)

    def fail(self, why: str) -> None:
        """End the run because of this rank, and tell all others."""
        if not self._failure:
            self._failure = f"rank {self.world.rank} failed: {why}"
            self.world.notify({"kind": FAILED, "why": why})

    # -- collectives -------------------------------------------------------------------------------

    def _number(self, collective: RankCollective, place: int) -> None:
        (address,) = (ctypes.c_size_t * 1).from_address(place)
        is_partition = collective.kind is Opcode.PARTITION_ID
        rank = self.world.rank
        number = rank % self.partitions if is_partition else rank // self.partitions
        write_array(address, collective.results[0], np.full((), number, np.uint32))

    def gathered(self, arrays: Sequence[Array], rank: int | None) -> list[list[Array]]:
        """Return the arrays of each rank, where all bring as many of the same types and sizes.

        With a rank these come to that one only, and the others get none.
        """
        world = self.world
        collective = RankCollective(
            "results", "results", Opcode.ALL_GATHER, (), (), (tuple(range(world.count)),)
        )
        link = Link(world, collective, self._wait)
        if rank is not None and rank != world.rank:
            link.wait([x for array in arrays for x in link.send(array, rank)])
            return []
        found = [[np.empty_like(x) for x in arrays] for _ in range(world.count)]
        found[world.rank] = list(arrays)
        requests = [
            x for other in link.others for array in found[other] for x in link.receive(array, other)
        ]
        if rank is None:
            requests += [x for other in link.others for y in arrays for x in link.send(y, other)]
        link.wait(requests)
        return found

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(self, collective: RankCollective, requests: Requests) -> None:
        self._has_told = False
        self.world.wait(self.world.is_done(requests), lambda waited: self._look(collective, waited))
        if self._has_told:
            self.world.notify({"kind": GOES_ON})

    def _look(self, collective: RankCollective, waited: float) -> None:
        """Hear what others say, tell them what this rank waits for, and end the run in time."""
        for rank, notice in self.world.heard():
            self._hear(rank, notice)
        if waited > QUICK_SECONDS and not self._has_told:
            self._has_told = True
            self.world.notify({"kind": WAITS, "at": collective.name, "count": self._count})
        if self.timeout_seconds is not None and waited > self.timeout_seconds:
            missing = ", ".join(self._missing(collective)) or "messages that do not come"
            self.fail(f"{collective}: waited {self.timeout_seconds:g} s for {missing}")
            self.check()

    def _hear(self, rank: int, notice: Document) -> None:
        if notice["kind"] == FAILED:
            self._failure = self._failure or f"rank {rank} failed: {notice['why']}"
            self.check()
        if notice["kind"] == WAITS:
            self._waiting[rank] = str(notice["at"]), int(notice["count"])
        else:
            self._waiting.pop(rank, None)

    def _missing(self, collective: RankCollective) -> list[str]:
        """The ranks of the group that do not wait at this collective, and what is known of them."""
        found = []
        for rank in collective.group_of(self.world.rank):
            at = self._waiting.get(rank)
            if rank == self.world.rank or at == (collective.name, self._count):
                continue
            known = f"waits at %{at[0]}" if at is not None else "waits for nobody"
            found.append(f"rank {rank}, which {known}")
        return found


Given: TypeAlias = "tuple[list[Array], list[Array], Callable[[Finish], None]]"
"""Operands and results as a rule takes them, and what finishes the operation and writes it."""


def _given(collective: RankCollective, orders: Sequence[tuple[int, ...]], place: int) -> Given:
    """Arrays as they lie in memory, in the order of results; operands that lie otherwise copied."""
    operands, results = _memory(collective, place)
    pairs = zip(operands, orders, strict=False)
    found = [np.asarray(x.transpose(order), order="C") for x, order in pairs]
    results = [x.transpose(order) for x, order in zip(results, orders, strict=True)]
    return found, results, lambda finish: finish()


def _given_in_rows(
    collective: RankCollective, orders: Sequence[tuple[int, ...]], place: int
) -> Given:
    """Copies whose rows lie one after another; what is made is written when it is finished."""
    operands, (result,) = _memory(collective, place)
    made = np.empty(result.shape, result.dtype)

    def written(finish: Finish) -> None:
        finish()
        result[...] = made

    return [np.array(x, order="C") for x in operands], [made], written


def _memory(collective: RankCollective, place: int) -> tuple[list[Array], list[Array]]:
    """The operands and results whose addresses are at an address."""
    shapes = (*collective.operands, *collective.results)
    addresses = (ctypes.c_size_t * len(shapes)).from_address(place)
    found = [memory_at(x, shape) for x, shape in zip(addresses, shapes, strict=True)]
    return found[: len(collective.operands)], found[len(collective.operands) :]
