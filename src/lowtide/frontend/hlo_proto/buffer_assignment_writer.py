"""Buffer assignments to protobuf, as XLA writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lowtide.frontend.hlo_proto.buffer_assignment import HEAP_EVENTS
from lowtide.frontend.hlo_proto.buffer_assignment_sites import Position, sites_of
from lowtide.frontend.hlo_proto.messages import new_message, parse_message, serialize
from lowtide.frontend.hlo_proto.writer import write_hlo_proto_with_ids
from lowtide.ir.buffer import Allocation, AllocationKind, AssignedValue, BufferAssignment, HeapTrace
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module

_EVENT_NUMBERS: Final = {kind: number for number, kind in HEAP_EVENTS.items()}
_ALL_PAIRS: Final = 256
"""Of more values than this in one buffer, not every pair is written, but each with the first."""


def write_buffer_assignment(
    module: Module, assignment: BufferAssignment, ids: Mapping[Instruction, int] | None = None
) -> bytes:
    """Return a plan as a BufferAssignmentProto.

    `ids` are the ids of the module's instructions in its protobuf, as `write_hlo_proto_with_ids`
    returns them; by default those of the protobuf that the module was read from. Call sites and
    live ranges are written too, in fields that other readers skip. Of the tables of slices, those
    of `assignment.values` are written.
    """
    if ids is None:
        ids = {
            x: c.id << 32 | x.id
            for c in module.computations.values()
            for x in c.instructions.values()
        }
    message = new_message("BufferAssignmentProto")
    _Writer(module, assignment, ids).write(message)
    return serialize(message)


def write_hlo_proto_plan(module: Module, assignment: BufferAssignment) -> bytes:
    """Return a module and its plan as a HloProto, as XLA dumps them after its optimizations.

    Raises HloProtoError where protobuf cannot hold the module.
    """
    data, ids = write_hlo_proto_with_ids(module)
    message = parse_message("HloProto", data)
    message.buffer_assignment = write_buffer_assignment(module, assignment, ids)
    return serialize(message)


class _Writer:
    def __init__(
        self, module: Module, assignment: BufferAssignment, ids: Mapping[Instruction, int]
    ) -> None:
        self.assignment = assignment
        self.ids = ids
        self.values = sorted(assignment.values, key=lambda x: x.number)
        counts: dict[Position, int] = {}
        for value in self.values:
            position = value.instruction, value.index
            counts[position] = counts.get(position, 0) + 1
        self.repeated = {position for position, count in counts.items() if count > 1}
        runs: dict[object, int] = {}
        for site in sites_of(module):
            runs[site.computation] = runs.get(site.computation, 0) + 1
        self.runs = runs
        self.arenas: list[Allocation] = []

    def write(self, proto: Any) -> None:
        """Fill a BufferAssignmentProto."""
        buffers: dict[int, list[AssignedValue]] = {}
        members: dict[int, list[AssignedValue]] = {}
        for value in self.values:
            self._value(value, proto.logical_buffers.add())
            buffers.setdefault(value.buffer, []).append(value)
            members.setdefault(value.place.allocation, []).append(value)
        for value in self.values:
            self._aliases(value, buffers[value.buffer], proto.buffer_aliases)
        for allocation in self.assignment.allocations:
            held = members.get(allocation.index, ())
            self._allocation(allocation, held, proto.buffer_allocations.add())
        for trace in self.assignment.heap_traces:
            _trace(trace, proto.heap_simulator_traces.add())
        for index, numbers in self.assignment.peak_values.items():
            proto.peak_buffers.add(index=index, logical_buffer_ids=numbers)

    def _value(self, value: AssignedValue, proto: Any) -> None:
        proto.id = value.number
        proto.size = value.place.nbytes
        proto.color = self.assignment.allocations[value.place.allocation].colour
        self._locate(value, proto.defined_at)
        if self.runs.get(value.instruction.parent, 1) > 1:
            proto.call_site = value.site
        if value.live is not None:
            proto.live_first, proto.live_last = value.live

    def _locate(self, value: AssignedValue, proto: Any) -> None:
        proto.instruction_id = self.ids[value.instruction]
        proto.shape_index.extend(value.index)

    def _aliases(self, value: AssignedValue, group: Sequence[AssignedValue], aliases: Any) -> None:
        if len(group) > _ALL_PAIRS and value is not group[0]:
            group = group[:1]
        for other in group:
            if other is value:
                continue
            alias = aliases.add(source_buffer_id=value.number)
            alias.location.SetInParent()
            self._locate(other, alias.location)
            if (other.instruction, other.index) in self.repeated:
                alias.buffer_id = other.number

    def _allocation(
        self, allocation: Allocation, members: Sequence[AssignedValue], proto: Any
    ) -> None:
        proto.index = allocation.index
        proto.size = allocation.nbytes
        proto.color = allocation.colour
        proto.is_tuple = allocation.is_tuple
        proto.maybe_live_out = allocation.maybe_live_out
        proto.is_thread_local = allocation.kind is AllocationKind.THREAD_LOCAL
        proto.is_constant = allocation.kind is AllocationKind.CONSTANT
        if allocation.parameter is not None:
            proto.is_entry_computation_parameter = True
            proto.parameter_number = allocation.parameter[0]
            proto.parameter_shape_index.extend(allocation.parameter[1])
            proto.is_parameter_aliased_with_output = allocation.output is not None
        if allocation.kind is AllocationKind.ARENA and allocation.maybe_live_out:
            first = not self.arenas
            self.arenas.append(allocation)
            proto.kept_bytes = self.assignment.kept_bytes if first else 0
        for value in members:
            proto.assigned.add(
                logical_buffer_id=value.number,
                offset=value.place.offset,
                size=value.place.nbytes,
                element_type=value.instruction.shape.at(value.index).element_type.number,
            )


def _trace(trace: HeapTrace, proto: Any) -> None:
    proto.whole_module_simulation = trace.whole_module
    proto.buffer_allocation_index = trace.allocation
    for event in trace.events:
        written = proto.events.add(
            kind=_EVENT_NUMBERS[event.kind],
            buffer_id=event.value,
            computation_name=event.computation,
            instruction_name=event.instruction,
        )
        if event.shares_with is not None:
            written.share_with_canonical_id = event.shares_with
