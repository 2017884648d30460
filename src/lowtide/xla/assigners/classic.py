"""Buffer assignment as TensorFlow 1.14 did it, on logical buffers and their interference.

Buffers that have to share a place are colocated sets, each with an allocation of its own; sets that
never interfere are merged before. Every other buffer is taken in order of decreasing size, one
computation after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import final

from lowtide.ir import Computation, Instruction, Module, Opcode, ShapeIndex
from lowtide.ir.attributes import Parameter
from lowtide.ir.buffer import AllocationKind, BufferAssignment
from lowtide.ir.traversal import fused_computations, post_order
from lowtide.xla.analysis.computation_kind import computation_kinds
from lowtide.xla.analysis.ordering import Ordering
from lowtide.xla.analysis.points_to import LogicalBuffer, points_to_analysis
from lowtide.xla.assigners.allocation_table import AllocationTable, OpenAllocation
from lowtide.xla.assigners.buffer_liveness import BufferLiveness, Members
from lowtide.xla.assigners.colocated_sets import (
    ColocatedSet,
    colocated_sets,
    merged_sets,
    set_bytes,
)
from lowtide.xla.assigners.heap_simulation import HeapRun, values_at_peak
from lowtide.xla.assigners.options import AssignerOptions, OperandSharing, algorithm_named
from lowtide.xla.assigners.result import Labels, assignment_of
from lowtide.xla.assigners.sequence_simulation import Sequences, places_of, simulate_sequence

DEFAULTS = AssignerOptions(algorithm="best-of-runs-and-spatial")


def assign_classic(
    module: Module, ordering: Ordering, options: AssignerOptions = DEFAULTS
) -> BufferAssignment:
    """Return the plan of a module with a flat call graph and all copies that it needs.

    Presets, the order of buffers and memory limits among the options are of today's assigner only.
    Raises LowtideError where one computation is called from several places.
    """
    return _Assigner(module, ordering, options).run()


@final
class _Assigner:
    def __init__(self, module: Module, ordering: Ordering, options: AssignerOptions) -> None:
        self.module = module
        self.ordering = ordering
        self.options = options
        self.kinds = computation_kinds(module)
        self.points_to = points_to_analysis(module)
        self.sharing = OperandSharing()
        self.table: AllocationTable[LogicalBuffer] = AllocationTable()
        self.buffers = {
            computation: list(self._buffers_of(computation))
            for computation in (*self.kinds.global_computations, *self.kinds.thread_local)
        }
        placed = [x for c in self.kinds.global_computations for x in self.buffers[c]]
        self.liveness = BufferLiveness(module, ordering, self.points_to, placed)
        self.members: dict[OpenAllocation[LogicalBuffer], Members] = {}
        self.colocated: list[OpenAllocation[LogicalBuffer]] = []
        self.set_of: dict[LogicalBuffer, int] = {}
        self.created: list[OpenAllocation[LogicalBuffer]] = []
        self.aliases = {
            (x.parameter, x.parameter_index): x.output_index for x in module.input_output_aliases
        }

    def run(self) -> BufferAssignment:
        """Go through the steps in order."""
        self._place_colocated_sets()
        waiting: dict[Computation, list[LogicalBuffer]] = {}
        for computation in self.kinds.global_computations:
            waiting[computation] = self._place_computation(computation)
        self._simulate(waiting)
        fused = fused_computations(self.module)
        for computation in self.kinds.thread_local:
            if computation not in fused:
                for buffer in self.buffers[computation]:
                    self._place_thread_local(buffer)
        self.table.mark_outputs(sorted(self.liveness.live_out, key=_number))
        self.table.find_peaks()
        self.table.combine_temporaries(self.options.alignment)
        return assignment_of(
            self.module, self.table, self._labels(), self._buffers_at, self._numbers()
        )

    def _buffers_of(self, computation: Computation) -> Iterator[LogicalBuffer]:
        for instruction in post_order(computation):
            for buffer in self.points_to.buffers_defined_by(instruction):
                if buffer.nbytes and (self.options.tables or not buffer.shape.is_tuple):
                    yield buffer

    # -- colocated sets ------------------------------------------------------------------------

    def _place_colocated_sets(self) -> None:
        found = colocated_sets(self.module, self.points_to, self.kinds.global_computations)
        sets = [tuple([x for x in members if x in self.liveness.values]) for members in found]
        sets = merged_sets([x for x in sets if x], self.liveness, self.module)
        for number, members in enumerate(sets):
            for buffer in members:
                self.set_of[buffer] = number
            self._place_set(members)
        self.colocated.sort(key=lambda allocation: allocation.nbytes)

    def _place_set(self, members: ColocatedSet) -> None:
        colour = self.options.colorer(members[0])
        nbytes = set_bytes(members)
        allocation = self.table.open(AllocationKind.ARENA, nbytes, colour, members)
        allocation.is_tuple = members[0].shape.is_tuple
        for buffer in members:
            if buffer.instruction.opcode is Opcode.CONSTANT:
                allocation.kind = AllocationKind.CONSTANT
                allocation.constant = buffer.instruction
            elif self._is_argument(buffer):
                self._mark_argument(allocation, buffer)
        self.colocated.append(allocation)

    def _is_argument(self, buffer: LogicalBuffer) -> bool:
        instruction = buffer.instruction
        return instruction.opcode is Opcode.PARAMETER and instruction.parent.is_entry

    def _mark_argument(
        self, allocation: OpenAllocation[LogicalBuffer], buffer: LogicalBuffer
    ) -> None:
        allocation.kind = AllocationKind.ARGUMENT
        number = buffer.instruction.attributes_as(Parameter).number
        allocation.parameter = (number, buffer.index)
        allocation.output = self.aliases.get(allocation.parameter)
        allocation.is_tuple = buffer.shape.is_tuple

    # -- one computation -----------------------------------------------------------------------

    def _place_computation(self, computation: Computation) -> list[LogicalBuffer]:
        """Place the buffers of a computation, and return those left to the simulation."""
        in_sequence = self.ordering.sequential_order(computation) is not None
        position = {x: i for i, x in enumerate(post_order(computation))}
        live_out = self.liveness.live_out
        waiting = []
        for buffer in sorted(
            self.buffers[computation],
            key=lambda x: (
                -x.nbytes,
                in_sequence and x not in live_out,
                position[x.instruction],
                x.number,
            ),
        ):
            if buffer in self.table.of_value or self._place_special(buffer):
                continue
            if self._reuse(buffer):
                continue
            if in_sequence and buffer not in live_out:
                waiting.append(buffer)
            else:
                self.created.append(self._open(AllocationKind.ARENA, buffer))
        return waiting

    def _place_special(self, buffer: LogicalBuffer) -> bool:
        """Give constants, arguments and tuples allocations of their own."""
        if buffer.instruction.opcode is Opcode.CONSTANT:
            if self.options.allocate_constants:
                allocation = self._open(AllocationKind.CONSTANT, buffer)
                allocation.constant = buffer.instruction
            return True
        if self._is_argument(buffer):
            self._mark_argument(self._open(AllocationKind.ARGUMENT, buffer), buffer)
            return True
        if buffer.shape.is_tuple:
            self._open(AllocationKind.ARENA, buffer).is_tuple = True
            return True
        return False

    def _place_thread_local(self, buffer: LogicalBuffer) -> None:
        if buffer.instruction.opcode is not Opcode.CONSTANT:
            self._open(AllocationKind.THREAD_LOCAL, buffer)
        else:
            self._place_special(buffer)

    def _open(self, kind: AllocationKind, buffer: LogicalBuffer) -> OpenAllocation[LogicalBuffer]:
        return self.table.open(kind, buffer.nbytes, self.options.colorer(buffer), (buffer,))

    # -- reuse ---------------------------------------------------------------------------------

    def _reuse(self, buffer: LogicalBuffer) -> bool:
        """Put a buffer where an operand lies, or into the smallest allocation that takes it."""
        candidates = self.colocated if self.options.reuse_colocated else []
        for allocation in (
            *self._operand_allocations(buffer),
            *candidates,
            *reversed(self.created),
        ):
            if self._takes(allocation, buffer):
                self.table.put(buffer, allocation)
                self.members[allocation] |= self.liveness.members([buffer])
                return True
        return False

    def _operand_allocations(
        self, buffer: LogicalBuffer
    ) -> Iterator[OpenAllocation[LogicalBuffer]]:
        if buffer.index:
            return
        for operand in buffer.instruction.operands:
            for found in self._buffers_at(operand, ()):
                allocation = self.table.of_value.get(found)
                if allocation is not None:
                    yield allocation

    def _takes(self, allocation: OpenAllocation[LogicalBuffer], buffer: LogicalBuffer) -> bool:
        options, live_out = self.options, self.liveness.live_out
        if not options.can_use_allocation(options.colorer(buffer), allocation.colour):
            return False
        if buffer.nbytes > allocation.nbytes or not allocation.is_reusable:
            return False
        if buffer in live_out and buffer.nbytes != allocation.nbytes:
            return False
        if options.must_not_live_out(buffer.instruction, buffer.index) and any(
            x in live_out for x in allocation.offsets
        ):
            return False
        if self._copies_from(allocation, buffer):
            return False
        if allocation not in self.members:
            self.members[allocation] = self.liveness.members(allocation.offsets)
        return not self.liveness.interferes_with(buffer, self.members[allocation])

    def _copies_from(
        self, allocation: OpenAllocation[LogicalBuffer], buffer: LogicalBuffer
    ) -> bool:
        if buffer.instruction.opcode is not Opcode.COPY:
            return False
        defined = self.points_to.buffers_defined_by(buffer.instruction.operands[0])
        return any(x in allocation.offsets for x in defined)

    # -- simulation ----------------------------------------------------------------------------

    def _simulate(self, waiting: Mapping[Computation, Sequence[LogicalBuffer]]) -> None:
        """Lay out what was left, in the whole module where all of it has a total order."""
        sequences: dict[Computation, Sequence[Instruction]] = {}
        for computation in waiting:
            order = self.ordering.sequential_order(computation)
            if order is not None:
                sequences[computation] = order
        if len(sequences) == len(waiting) and self.options.whole_module:
            everything = [x for found in waiting.values() for x in found]
            self._lay_out(self.module.entry, sequences, everything, whole_module=True)
            return
        for computation, buffers in waiting.items():
            if buffers:
                own = {computation: sequences[computation]}
                self._lay_out(computation, own, buffers, whole_module=False)

    def _lay_out(
        self,
        computation: Computation,
        sequences: Sequences,
        buffers: Sequence[LogicalBuffer],
        *,
        whole_module: bool,
    ) -> None:
        by_colour: dict[int, list[LogicalBuffer]] = {}
        for buffer in buffers:
            by_colour.setdefault(self.options.colorer(buffer), []).append(buffer)
        for colour in sorted(by_colour):
            found = by_colour[colour]
            run = simulate_sequence(computation, sequences, found, self.points_to, self.sharing)
            self._place_run(run, colour, found, whole_module=whole_module)

    def _place_run(
        self, run: HeapRun, colour: int, buffers: Sequence[LogicalBuffer], *, whole_module: bool
    ) -> None:
        algorithm = algorithm_named(self.options.algorithm, -1)
        heap = algorithm(run.steps, self.options.alignment(colour)).heaps[0]
        allocation = self.table.open(AllocationKind.ARENA, heap.nbytes, colour)
        place = places_of(run)
        for buffer in buffers:
            offset = heap.chunks[place[buffer.number]].offset
            self.table.put(buffer, allocation, offset)
        allocation.traces.append((whole_module, run.events))
        by_number = {buffer.number: buffer for buffer in buffers}
        allocation.peak = tuple(values_at_peak(run.events, by_number))

    # -- the result ----------------------------------------------------------------------------

    def _buffers_at(self, instruction: Instruction, index: ShapeIndex) -> tuple[LogicalBuffer, ...]:
        return self.points_to.points_to_set(instruction).element(index)

    def _labels(self) -> Mapping[LogicalBuffer, Labels]:
        alone = len(self.set_of)
        return {
            buffer: Labels(self.set_of.get(buffer, alone + buffer.number), False, None)
            for buffer in self._all_buffers()
        }

    def _numbers(self) -> Mapping[LogicalBuffer, int]:
        return {buffer: buffer.number for buffer in self._all_buffers()}

    def _all_buffers(self) -> Iterable[LogicalBuffer]:
        return [x for buffers in self.buffers.values() for x in buffers]


def _number(buffer: LogicalBuffer) -> int:
    return buffer.number
