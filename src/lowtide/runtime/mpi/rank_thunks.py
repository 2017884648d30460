"""The program of several devices as one rank runs it: collectives are calls of its rendezvous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lowtide.host_calls.calls import Runner, runner
from lowtide.host_calls.memory_calls import MemoryCallee
from lowtide.ir.thunk import (
    BundleThunk,
    CollectiveThunk,
    HostCallThunk,
    Thunk,
    all_thunks,
    collective_thunks,
    host_calls,
)
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.mpi.link import RankCollective
from lowtide.runtime.mpi.rendezvous import RankRendezvous


class RankThunks:
    """Makes the program of a rank, which runs as long as this is held.

    `collectives` are those of the program by name. `before` has for each that is only begun there
    the names of the instructions that run before it has to be finished. `failed_at` is the name of
    the instruction at which the last run ended, "" where none did.
    """

    def __init__(
        self,
        program: NativeProgram,
        rendezvous: RankRendezvous,
        collectives: Mapping[str, RankCollective],
        before: Mapping[str, frozenset[str]],
    ) -> None:
        self.failed_at = ""
        self._before = before
        self._callees: dict[str, MemoryCallee] = {}
        for thunk in collective_thunks(program.thunks):
            collective = collectives[thunk.name]
            waits = thunk.name in before
            self._add(thunk.name, thunk.name, rendezvous.runner(collective, waits=waits))
            if waits:
                self._add(_end(thunk.name), thunk.name, rendezvous.waiter(collective))
        for call in host_calls(program.thunks):
            self._add(call.name, call.name, runner(call.call))
        self.program = replace(
            program, thunks=self._sequence(program.thunks), replicas=1, partitions=1
        )

    def _add(self, key: str, name: str, run: Runner) -> None:
        def noted(place: int) -> None:
            try:
                run(place)
            except BaseException:
                self.failed_at = name
                raise

        self._callees[key] = MemoryCallee(noted)

    def _sequence(self, thunks: Sequence[Thunk]) -> tuple[Thunk, ...]:
        """The same with calls for collectives; nests as loops and branches do."""
        found: list[Thunk] = []
        begun: list[str] = []
        for thunk in thunks:
            names = {x.name for x in all_thunks([thunk])}
            for name in [x for x in begun if not names <= self._before[x]]:
                begun.remove(name)
                found.append(self._wait(name))
            found.append(self._called(thunk))
            if isinstance(thunk, CollectiveThunk) and thunk.name in self._before:
                begun.append(thunk.name)
        return (*found, *[self._wait(x) for x in begun])

    def _wait(self, name: str) -> Thunk:
        return HostCallThunk(name, self._callees[_end(name)].call((), ()), ())

    def _called(self, thunk: Thunk) -> Thunk:
        match thunk:
            case CollectiveThunk(name, collective, buffers):
                call = self._callees[name].call(collective.operands, collective.results)
                return HostCallThunk(name, call, buffers)
            case HostCallThunk(name, call, _):
                callee = self._callees[name]
                return replace(thunk, call=callee.call(call.operands, call.results))
            case BundleThunk():
                assert not collective_thunks(thunk.parts)
                return thunk
        return thunk.map_sequences(self._sequence)


def _end(name: str) -> str:
    return f"the end of {name}"
