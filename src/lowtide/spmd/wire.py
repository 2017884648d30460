"""Traffic of the program of one device: collectives by kind, and bytes by the ring model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.cost.devices import DeviceRecord, ring_bytes
from lowtide.ir import Computation, Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import Collective, CollectivePermute
from lowtide.ir.replica_groups import device_count
from lowtide.records import dataclass

KINDS: Final = {
    Opcode.ALL_GATHER: "all-gather",
    Opcode.ALL_GATHER_START: "all-gather",
    Opcode.ALL_REDUCE: "all-reduce",
    Opcode.ALL_REDUCE_START: "all-reduce",
    Opcode.ALL_TO_ALL: "all-to-all",
    Opcode.COLLECTIVE_BROADCAST: "collective-broadcast",
    Opcode.COLLECTIVE_PERMUTE: "collective-permute",
    Opcode.COLLECTIVE_PERMUTE_START: "collective-permute",
    Opcode.REDUCE_SCATTER: "reduce-scatter",
}
"""The kind of each collective, by the opcode that sends."""


@dataclass(slots=True)
class KindTraffic:
    """One kind of collective: how many there are, how often they run, bytes of all runs."""

    count: int = 0
    runs: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class WireTraffic:
    """The collectives of a program: bytes that one device sends on rings of its groups.

    Loop bodies count as often as they run; where that is not known, once, and `unknown_loops`
    counts such loops. All branches of a conditional count.
    """

    wire_bytes: int = 0
    unknown_loops: int = 0
    collectives: dict[str, KindTraffic] = field(default_factory=dict)


def wire_traffic(module: Module) -> WireTraffic:
    """Return what the program of one device sends in one run."""
    found = WireTraffic()
    for computation, times, is_known in _runs(module.entry):
        crosses = False
        for x in computation.instructions.values():
            if x.opcode in KINDS:
                _count(found, x, times, module.num_partitions)
                crosses = True
        found.unknown_loops += crosses and not is_known
    return found


def _runs(entry: Computation) -> Iterator[tuple[Computation, int, bool]]:
    """Yield (computation, how often it runs, whether that is known) for all that are called."""
    pending = [(entry, 1, True)]
    while pending:
        computation, times, is_known = pending.pop()
        yield computation, times, is_known
        for x in computation.instructions.values():
            if x.opcode is Opcode.WHILE:
                trips = trip_count(x)
                count = times * (trips.count if trips else 1)
                pending += [(c, count, trips is not None) for c in x.called_computations]
            elif x.opcode in (Opcode.CALL, Opcode.CONDITIONAL, Opcode.ASYNC_START):
                pending += [(c, times, is_known) for c in x.called_computations]


def _count(found: WireTraffic, x: Instruction, times: int, partitions: int) -> None:
    sent = sum([operand.shape.leaf_nbytes for operand in x.operands])
    received = _result(x).leaf_nbytes
    kind = KINDS[x.opcode]
    traffic = found.collectives.setdefault(kind, KindTraffic())
    traffic.count += 1
    traffic.runs += times
    traffic.bytes_in += times * sent
    traffic.bytes_out += times * received
    found.wire_bytes += round(times * sent_bytes(x, partitions))


def sent_bytes(x: Instruction, partitions: int) -> float:
    """Return what one device sends on the ring of its group in one run of a collective."""
    sent = float(sum([operand.shape.leaf_nbytes for operand in x.operands]))
    received = float(_result(x).leaf_nbytes)
    kind = KINDS[x.opcode]
    return ring_bytes(kind, received if kind == "all-gather" else sent, group_size(x, partitions))


def sending(x: Instruction, module: Module, device: DeviceRecord) -> tuple[int, float]:
    """Return the number of the link that a collective needs, and the seconds that it sends."""
    number = device.link_between(_groups(x, module))
    return number, device.links[number].seconds(sent_bytes(x, module.num_partitions))


def _groups(x: Instruction, module: Module) -> tuple[tuple[int, ...], ...]:
    """The devices that send to one another: of a permute, the two of each pair."""
    if isinstance(x.attributes, CollectivePermute):
        return x.attributes.source_target_pairs
    groups = x.attributes_as(Collective).replica_groups.as_lists()
    return groups or (tuple(range(module.num_partitions * module.replica_count)),)


def _result(x: Instruction) -> Shape:
    """Return the shape of what a collective receives; of an asynchronous one, the second half."""
    if x.opcode in (Opcode.ALL_GATHER_START, Opcode.COLLECTIVE_PERMUTE_START):
        return x.shape.tuple_shapes[1]
    return x.shape


def group_size(x: Instruction, partitions: int) -> int:
    """Return how many devices a group of a collective has."""
    if isinstance(x.attributes, CollectivePermute):
        return partitions
    groups = x.attributes_as(Collective).replica_groups
    if not device_count(groups):
        return partitions
    return len(groups.as_lists()[0])
