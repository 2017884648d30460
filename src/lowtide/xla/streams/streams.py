"""The stream of a device that runs each instruction of the entry.

The rule is that of TensorFlow 1.14's AssignStreams. Calls of a library for matrix products take up
a device each, so those which may run at once get streams of their own. All else follows what it
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.traversal import post_order
from lowtide.records import dataclass
from lowtide.xla.analysis.bit_rows import set_bits
from lowtide.xla.analysis.reachability import direct_predecessors

_CONTRACTIONS: Final = frozenset({Opcode.DOT, Opcode.CONVOLUTION})
_WITHOUT_STREAM: Final = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})
_WITH_STATE: Final = frozenset({Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE})
"""Operations on one hidden state, which has to be on one stream."""

_LIBRARY_TARGETS: Final = ("__cublas$", "__cudnn$conv", "__onednn$matmul", "__onednn$convolution")
"""How the names of custom calls start that are matrix products or convolutions."""


@dataclass(frozen=True, eq=False, slots=True)
class StreamAssignment:
    """The stream of each instruction of a computation; parameters and constants have none.

    Streams are numbered from 0 to `count` - 1; stream 0 is the main one.
    """

    computation: Computation
    streams: Mapping[Instruction, int]
    count: int


def is_library_call(instruction: Instruction) -> bool:
    """Whether a dot or convolution is what an instruction does, by itself or as a fusion's root."""
    if instruction.opcode is Opcode.FUSION:
        return instruction.called_computations[0].root.opcode in _CONTRACTIONS
    if instruction.opcode is Opcode.CUSTOM_CALL:
        return instruction.attributes_as(CustomCall).target.startswith(_LIBRARY_TARGETS)
    return instruction.opcode in _CONTRACTIONS


def assign_streams(
    module: Module,
    *,
    several: bool = True,
    is_library_call: Callable[[Instruction], bool] = is_library_call,
) -> StreamAssignment:
    """Return the streams of the entry, which has no use for others where not `several`.

    A library call takes the lowest stream on which all earlier library calls come before it or
    after it, by dependencies. Any other instruction runs on the highest stream of its operands.
    Operations that draw from one hidden state run on the stream of the first of them.
    """
    entry = module.entry
    order = post_order(entry)
    launched = [x for x in order if x.opcode not in _WITHOUT_STREAM]
    if not several:
        return StreamAssignment(entry, dict.fromkeys(launched, 0), 1)
    chosen = _library_streams(entry, order, is_library_call)
    streams: dict[Instruction, int] = {}
    shared: int | None = None
    for instruction in launched:
        stream = chosen.get(instruction)
        if stream is None:
            stream = max([streams[x] for x in instruction.operands if x in streams], default=0)
        if instruction.opcode in _WITH_STATE:
            stream = shared = stream if shared is None else shared
        streams[instruction] = stream
    return StreamAssignment(entry, streams, max(streams.values(), default=0) + 1)


def _library_streams(
    computation: Computation,
    order: list[Instruction],
    is_library_call: Callable[[Instruction], bool],
) -> dict[Instruction, int]:
    """The streams of library calls. Those on one stream form a chain, of which the end matters."""
    predecessors = direct_predecessors(computation)
    before: dict[Instruction, int] = {}
    calls: list[Instruction] = []
    stream_of = np.zeros(len(order), np.int64)
    last_on: list[int] = []
    ends = 0
    for instruction in order:
        row = 0
        for predecessor in predecessors[instruction]:
            row |= before[predecessor]
        if is_library_call(instruction):
            number = len(calls)
            free = row & ends
            if free:
                stream = int(stream_of[set_bits(free)].min())
                ends ^= 1 << last_on[stream]
                last_on[stream] = number
            else:
                stream = len(last_on)
                last_on.append(number)
            calls.append(instruction)
            stream_of[number] = stream
            ends |= 1 << number
            row |= 1 << number
        before[instruction] = row
    return dict(zip(calls, stream_of.tolist(), strict=False))
