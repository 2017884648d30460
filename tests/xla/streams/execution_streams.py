"""The stream of each instruction where asynchronous operations say what may run at once.

The rule is that of today's XLA:GPU (OpenXLA, execution_stream_assignment): one main stream, a few
more for asynchronous computations, and one for each kind of communication.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.traversal import sequence
from lowtide.records import dataclass
from lowtide.xla.analysis.call_tree import CallTree


class StreamKind(StrEnum):
    """What a stream is for."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    POINT_TO_POINT = "point-to-point"


class Stream(NamedTuple):
    """A stream of a device; compute stream 0 is the main one."""

    kind: StreamKind
    number: int


MAIN: Final = Stream(StreamKind.COMPUTE, 0)

EXTRA_STREAMS: Final = 4
"""Compute streams besides the main one."""

_COMMUNICATION: Final = {
    Opcode.ALL_GATHER: StreamKind.COLLECTIVE,
    Opcode.ALL_GATHER_START: StreamKind.COLLECTIVE,
    Opcode.ALL_REDUCE: StreamKind.COLLECTIVE,
    Opcode.ALL_REDUCE_START: StreamKind.COLLECTIVE,
    Opcode.ALL_TO_ALL: StreamKind.COLLECTIVE,
    Opcode.COLLECTIVE_BROADCAST: StreamKind.COLLECTIVE,
    Opcode.COLLECTIVE_PERMUTE: StreamKind.COLLECTIVE,
    Opcode.COLLECTIVE_PERMUTE_START: StreamKind.COLLECTIVE,
    Opcode.RAGGED_ALL_TO_ALL: StreamKind.COLLECTIVE,
    Opcode.REDUCE_SCATTER: StreamKind.COLLECTIVE,
    Opcode.RECV: StreamKind.POINT_TO_POINT,
    Opcode.SEND: StreamKind.POINT_TO_POINT,
}
_STARTS: Final = frozenset(
    {
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE_START,
        Opcode.COLLECTIVE_PERMUTE_START,
        Opcode.RECV,
        Opcode.SEND,
    }
)
"""Operations that start communication and let the stream of their caller go on."""

_DONES: Final = frozenset(
    {
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ASYNC_DONE,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.RECV_DONE,
        Opcode.SEND_DONE,
    }
)


@dataclass(frozen=True, slots=True)
class StreamWait:
    """At an instruction, stream `waiting` stops until all launched so far on `awaited` is over."""

    instruction: Instruction
    waiting: Stream
    awaited: Stream


@dataclass(frozen=True, eq=False, slots=True)
class ExecutionStreams:
    """The stream of each instruction that runs as control flow, and where streams wait.

    `source` is the stream that an asynchronous operation is launched from, `stream` the one where
    what it starts runs; for all else they are one.
    """

    source: Mapping[Instruction, Stream]
    stream: Mapping[Instruction, Stream]
    waits: tuple[StreamWait, ...]


def execution_streams(module: Module, extra_streams: int = EXTRA_STREAMS) -> ExecutionStreams:
    """Return the streams of a module in which each computation has one call site.

    What an async-start runs goes to the next of the extra compute streams, in turn, or to that of
    its kind of communication; all else runs on the stream of its caller. Raises LowtideError for
    several call sites, ValueError for no extra stream.
    """
    if extra_streams < 1:
        raise ValueError(f"asynchronous computations need a stream, not {extra_streams}")
    tree = CallTree(module)
    maker = _Maker(extra_streams)
    for computation in tree.computations:
        call = tree.call_of(computation)
        own = MAIN if call is None else maker.stream[call.caller]
        for instruction in sequence(computation):
            maker.place(instruction, own)
    return ExecutionStreams(maker.source, maker.stream, tuple(maker.waits))


@final
class _Maker:
    def __init__(self, extra_streams: int) -> None:
        self.extra_streams = extra_streams
        self.source: dict[Instruction, Stream] = {}
        self.stream: dict[Instruction, Stream] = {}
        self.waits: list[StreamWait] = []
        self.scopes = 0

    def place(self, instruction: Instruction, own: Stream) -> None:
        opcode = instruction.opcode
        target = own
        if opcode is Opcode.ASYNC_START:
            target = _communication(instruction.called_computations[0].root) or self._next()
        elif opcode in _STARTS:
            target = _communication(instruction) or own
        elif opcode is Opcode.ASYNC_UPDATE:
            target = self.stream[instruction.operands[0]]
        self.source[instruction], self.stream[instruction] = own, target
        if opcode in _DONES:
            started = self.stream[instruction.operands[0]]
            if started != own:
                self.waits.append(StreamWait(instruction, own, started))
        elif target != own and opcode is not Opcode.ASYNC_UPDATE:
            self.waits.append(StreamWait(instruction, target, own))

    def _next(self) -> Stream:
        self.scopes += 1
        return Stream(StreamKind.COMPUTE, 1 + (self.scopes - 1) % self.extra_streams)


def _communication(instruction: Instruction) -> Stream | None:
    kind = _COMMUNICATION.get(instruction.opcode)
    return None if kind is None else Stream(kind, 0)
