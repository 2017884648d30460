"""The ranks that run one program together: what they tell one another beside its data.

Everything travels as bytes: data as they lie in memory, all else as JSON.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from lowtide.ir.errors import LowtideError

Document: TypeAlias = Mapping[str, Any]

QUICK_SECONDS: Final = 1.0
"""How long those that wait ask again and again; then they sleep in between."""

_SLEEP_SECONDS: Final = 0.001
_TURNS: Final = 64
"""Tests of MPI between two looks at the clock."""

_NOTICE, _WORD, _ANSWER = 1, 2, 3
"""Tags: of notices, of what a rank says to rank 0, and of what rank 0 says to all."""


class MissingMpiError(LowtideError):
    """There is no MPI in this Python."""


def mpi_library() -> Any:
    """Return the module `mpi4py.MPI`, which starts MPI; raises MissingMpiError without one."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise MissingMpiError(
            f"programs on several ranks need mpi4py and an MPI library ({reason}): "
            "pip install 'lowtide[mpi]' mpich"
        ) from None
    return MPI


@final
class World:
    """The ranks of a communicator, which is duplicated: no message meets one of the caller's.

    All ranks of it make their World at once. `data` is the communicator of the program's data, and
    `agreements` is how often the ranks told one another something at once.
    """

    def __init__(self, comm: Any) -> None:
        self.mpi = mpi_library()
        self.data = comm.Dup()
        self._words = comm.Dup()
        self.rank: int = comm.Get_rank()
        self.count: int = comm.Get_size()
        self.agreements = 0
        self._sent: list[Any] = []

    # -- waiting -----------------------------------------------------------------------------------

    def wait(self, is_done: Callable[[], bool], look: Callable[[float], None]) -> None:
        """Wait until something is done.

        `look` is given the seconds that went by, from time to time, and may raise. For
        QUICK_SECONDS this takes all of a core that nobody else wants.
        """
        if is_done():
            return
        start = time.monotonic()
        waited = 0.0
        while True:
            for _ in range(_TURNS):
                if is_done():
                    return
                os.sched_yield()
            waited = time.monotonic() - start
            look(waited)
            if waited > QUICK_SECONDS:
                time.sleep(_SLEEP_SECONDS)

    def is_done(self, requests: Sequence[Any]) -> Callable[[], bool]:
        """Return what says whether all requests are complete."""
        test = self.mpi.Request.Testall
        return lambda: bool(test(requests))

    # -- notices -----------------------------------------------------------------------------------

    def notify(self, notice: Document) -> None:
        """Send a notice to all other ranks, which read it when they next wait for something."""
        for rank in range(self.count):
            if rank != self.rank:
                self._say(notice, rank, _NOTICE)

    def heard(self) -> list[tuple[int, Document]]:
        """Return the notices that have come, each with the rank that sent it."""
        found = []
        while (came := self._next(self.mpi.ANY_SOURCE, _NOTICE)) is not None:
            found.append(came)
        return found

    def agreed(self, own: Document, seconds: float | None) -> list[Document | None]:
        """Return what each rank says at this moment; all ranks say something.

        After so many seconds (None: never) there is None for each rank from which nothing came; a
        rank that rank 0 does not answer knows of itself only.
        """
        self.agreements += 1
        found: list[Document | None] = [None] * self.count
        found[self.rank] = own
        if self.rank:
            self._say({"number": self.agreements, "says": own}, 0, _WORD)
            answer = self._awaited(0, _ANSWER, seconds)
            return found if answer is None else list(answer)
        deadline = None if seconds is None else time.monotonic() + seconds
        for rank in range(1, self.count):
            left = None if deadline is None else max(deadline - time.monotonic(), 0.01)
            found[rank] = self._awaited(rank, _WORD, left)
        for rank in range(1, self.count):
            self._say({"number": self.agreements, "says": found}, rank, _ANSWER)
        return found

    def _say(self, document: Document, rank: int, tag: int) -> None:
        data = json.dumps(document).encode()
        self._sent = [x for x in self._sent if not x.Test()]
        self._sent.append(self._words.Isend([data, self.mpi.BYTE], rank, tag))

    def _next(self, source: int, tag: int) -> tuple[int, Document] | None:
        status = self.mpi.Status()
        if not self._words.Iprobe(source, tag, status):
            return None
        data = bytearray(status.Get_count(self.mpi.BYTE))
        sender = status.Get_source()
        self._words.Recv([data, self.mpi.BYTE], sender, tag)
        return sender, json.loads(bytes(data))

    def _awaited(self, source: int, tag: int, seconds: float | None) -> Any:
        """What a rank says at this agreement; None where nothing comes in time."""
        came: list[Any] = []

        def is_there() -> bool:
            found = self._next(source, tag)
            if found is not None and found[1]["number"] == self.agreements:
                came.append(found[1]["says"])
            return bool(came)

        def look(waited: float) -> None:
            if seconds is not None and waited > seconds:
                raise TimeoutError

        try:
            self.wait(is_there, look)
        except TimeoutError:
            return None
        return came[0]


def world_of(comm: Any | None = None) -> World:
    """Return the World of a communicator, by default that of all ranks; the same one each time.

    The first time all ranks call it at once. Raises MissingMpiError.
    """
    mpi = mpi_library()
    given = mpi.COMM_WORLD if comm is None else comm
    if not _key:
        _key.append(mpi.Comm.Create_keyval())
    world = given.Get_attr(_key[0])
    if world is None:
        world = World(given)
        given.Set_attr(_key[0], world)
    found: World = world
    return found


_key: Final[list[int]] = []
"""The number under which MPI keeps the World of a communicator, once there is one."""
