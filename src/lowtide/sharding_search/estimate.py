"""Estimates of a division: one draft of the program of a device, neither optimized nor planned.

A plan of a division takes several drafts, fusion, an order and offsets. An estimate takes the
first draft: its collectives by the figures of the links, its products and its bytes by those of the
device, its live bytes as if all that can be fused were. Estimates only say what to plan first.
"""

from __future__ import annotations

from typing import Final

from lowtide.analysis.donation import aliases
from lowtide.analysis.loop_trip_count import trip_count
from lowtide.cost.devices import DeviceRecord
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.garbage_collection import without_collection
from lowtide.ops.cost import Memo, cost
from lowtide.ops.table import TABLE
from lowtide.records import dataclass
from lowtide.sharding_search.division import Division
from lowtide.sharding_search.fused_bytes import fused_live_bytes
from lowtide.sharding_search.program import ShardableProgram
from lowtide.spmd.annotations import AnnotationReader, ModuleShardings, TilingWish
from lowtide.spmd.combining import combine_collectives
from lowtide.spmd.drafts import Task, first_draft
from lowtide.spmd.flattening import flattened
from lowtide.spmd.memo import OperationMemo, SplitMemo
from lowtide.spmd.partitioner import remove_dead
from lowtide.spmd.wire import KINDS, sending
from lowtide.spmd.writing import written

_PRODUCTS: Final = frozenset({Opcode.CONVOLUTION, Opcode.DOT, Opcode.RAGGED_DOT})
_FREE: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT),
        *(Opcode.IOTA, Opcode.PARAMETER, Opcode.RESHAPE, Opcode.TUPLE),
    }
)
_FUSED: Final = 0.5
"""The part of what operations on single elements write that goes to memory: the rest is fused."""

_SHOWN: Final = 0.3
"""The part of the lesser of computing and sending that the other one does not hide."""


@dataclass(frozen=True, slots=True)
class DivisionEstimate:
    """The seconds of a step of a division, and the bytes that a device holds, roughly."""

    seconds: float
    peak_bytes: int


class Estimator:
    """Makes estimates of the divisions of one program, each once."""

    def __init__(
        self, program: ShardableProgram, device: DeviceRecord, splits: SplitMemo | None = None
    ) -> None:
        self.program = program
        self.device = device
        self.count = 0
        self._memo = OperationMemo(splits)
        self._source = flattened(program.module)
        self._source.num_partitions = program.mesh.count
        self.known: dict[Division, DivisionEstimate] = {}
        """The estimates so far, in the order in which they were made."""

    def __contains__(self, division: Division) -> bool:
        return division in self.known

    def estimate(self, division: Division) -> DivisionEstimate:
        """Return the estimate of a division."""
        if division not in self.known:
            self.count += 1
            with without_collection():
                self.known[division] = self._of(division)
        return self.known[division]

    def _of(self, division: Division) -> DivisionEstimate:
        task = Task(self._source, self._shardings(division), self._memo)
        made = written(task, first_draft(task))
        remove_dead(made)
        combine_collectives(made)
        made.input_output_aliases = self.program.module.input_output_aliases
        computing, sending = _work(made, self.device)
        seconds = max(computing, sending) + _SHOWN * min(computing, sending)
        return DivisionEstimate(seconds, _kept_bytes(made) + fused_live_bytes(made))

    def _shardings(self, division: Division) -> ModuleShardings:
        mesh, leaves = self.program.mesh, self.program.leaves
        found = ModuleShardings(AnnotationReader(mesh.grid, {}, False))
        wishes = [
            TilingWish(division.tiling(mesh, number), (False,) * len(leaf.sizes))
            for number, leaf in enumerate(leaves)
        ]
        given = iter(wishes)
        for parameter in self._source.entry.parameters:
            found.parameters.append([next(given) for _ in parameter.shape.leaves()])
        updated = self.program.updated
        for number, _ in enumerate(self._source.entry.root.shape.leaves()):
            found.results.append(wishes[updated[number]] if number in updated else None)
        return found


def _work(module: Module, device: DeviceRecord) -> tuple[float, float]:
    """Return the seconds that a device computes, and those that its links send."""
    computing = sent = 0.0
    memo: Memo = {}
    pending = [(module.entry, 1)]
    while pending:
        computation, times = pending.pop()
        for x in computation.instructions.values():
            if x.opcode in KINDS:
                sent += times * sending(x, module, device)[1]
            elif x.opcode is Opcode.WHILE:
                trips = trip_count(x)
                count = times * (trips.count if trips else 1)
                pending += [(callee, count) for callee in x.called_computations]
            elif x.opcode is Opcode.CONDITIONAL:
                pending += [(callee, times) for callee in x.called_computations]
            elif x.opcode not in _FREE and x.shape.is_array:
                computing += times * _computing(x, device, memo)
    return computing, sent


def _computing(x: Instruction, device: DeviceRecord, memo: Memo) -> float:
    machine = device.machine
    if x.opcode in _PRODUCTS:
        found = cost(x, memo)
        moving = found.bytes_accessed * machine.memory_byte_seconds
        return machine.launch_seconds + found.flops * machine.flop_seconds + moving
    part = _FUSED if TABLE[x.opcode].elementwise else 1.0
    return part * x.shape.leaf_nbytes * machine.memory_byte_seconds


def _kept_bytes(module: Module) -> int:
    """Return the bytes of the arguments that no result is written over: others count as live."""
    leaves = [leaf.nbytes for p in module.entry.parameters for _, leaf in p.shape.leaves()]
    return sum(leaves) - sum([leaves[number] for number in {x.parameter for x in aliases(module)}])
