"""Buffer assignment as XLA does it today, for any ordering of the instructions.

Buffers are taken one by one, by default the largest first. What the caller sees, constants and
tuples have allocations of their own. Others may go where one of their operands lies, or into any
allocation that nothing uses meanwhile. Temporaries of computations with a total order are put off,
and laid out together by a simulation of the heap. In the end all temporaries of a memory space are
one allocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

from lowtide.ir import Computation, Instruction, LowtideError, Module, Opcode, Schedule
from lowtide.ir.attributes import Parameter
from lowtide.ir.buffer import AllocationKind, BufferAssignment
from lowtide.ir.traversal import fused_computations
from lowtide.xla.analysis.computation_kind import ComputationKinds, computation_kinds
from lowtide.xla.analysis.hlo_alias import HloAliasAnalysis, HloBuffer, hlo_alias_analysis
from lowtide.xla.analysis.hlo_dataflow import hlo_dataflow
from lowtide.xla.analysis.hlo_live_range import hlo_live_range
from lowtide.xla.analysis.hlo_value import HloValue
from lowtide.xla.analysis.ordering import Ordering
from lowtide.xla.assigners.allocation_table import AllocationTable, OpenAllocation
from lowtide.xla.assigners.computation_ranges import computation_ranges
from lowtide.xla.assigners.heap_simulation import Ranges, simulate_heap, values_at_peak
from lowtide.xla.assigners.interference import (
    InterferenceCheck,
    PartialInterference,
    TotalInterference,
)
from lowtide.xla.assigners.options import (
    AssignerOptions,
    BufferOrder,
    OperandSharing,
    algorithm_named,
)
from lowtide.xla.assigners.result import Labels, assignment_of
from lowtide.xla.assigners.xla_order import (
    computations_as_assigned,
    numbered_as_in_xla,
    positions_as_assigned,
)

DEFAULTS: Final = AssignerOptions()


def assign(
    module: Module, ordering: Ordering, options: AssignerOptions = DEFAULTS
) -> BufferAssignment:
    """Return the plan of a module with a flat call graph and all copies that it needs.

    What runs at the same time under the ordering shares no memory. Raises LowtideError where one
    computation is called from several places, a buffer has values of several colours, or a preset
    names no value.
    """
    return _Assigner(module, ordering, options).run()


class _Demand(NamedTuple):
    """What decides where a buffer may go; `copied` are the operands that it is a copy of."""

    values: tuple[HloValue, ...]
    nbytes: int
    colour: int
    live_out: bool
    hidden: bool
    copied: list[HloValue]


@final
class _Assigner:
    def __init__(self, module: Module, ordering: Ordering, options: AssignerOptions) -> None:
        self.module = module
        self.ordering = ordering
        self.options = options
        self.alias: HloAliasAnalysis = hlo_alias_analysis(module, hlo_dataflow(module))
        self.kinds: ComputationKinds = computation_kinds(module)
        self.sharing = OperandSharing()
        self.table: AllocationTable[HloValue] = AllocationTable()
        self.ranges = self._ranges()
        self.interference = self._interference()
        self.aliases = {
            (x.parameter, x.parameter_index): x.output_index for x in module.input_output_aliases
        }
        self.candidates: list[OpenAllocation[HloValue]] = []
        self.waiting: dict[Computation, list[HloBuffer]] = {}
        self.position = positions_as_assigned(module)
        self.number = numbered_as_in_xla(module, self.alias.dataflow.values)

    def run(self) -> BufferAssignment:
        """Go through the steps in order."""
        self._place_presets()
        by_computation = self._buffers_by_computation()
        buffers = [x for c in self.kinds.global_computations for x in by_computation.get(c, ())]
        for buffer in self._sorted(dict.fromkeys(buffers)):
            self._place(buffer)
        self._simulate()
        embedded = set(self.kinds.thread_local) - fused_computations(self.module)
        for computation in computations_as_assigned(self.module):
            if computation in embedded:
                for buffer in self._sorted(by_computation.get(computation, ())):
                    self._place_thread_local(buffer)
        live_out = [x for buffer in self.alias.live_out_buffers for x in buffer.values]
        self.table.mark_outputs(live_out)
        self.table.find_peaks()
        self.table.combine_temporaries(self.options.alignment)
        return assignment_of(
            self.module, self.table, self._labels(), self._values_at_position, self.number
        )

    # -- analyses ------------------------------------------------------------------------------

    def _ranges(self) -> Ranges | None:
        """When values are live, where all that runs has a total order."""
        orders = {x: self.ordering.sequential_order(x) for x in self.kinds.global_computations}
        known = {x: order for x, order in orders.items() if order is not None}
        if len(known) < len(orders):
            return None
        found = hlo_live_range(self.module, self.alias, Schedule(known)).ranges
        return {value: (bound.start, bound.end) for value, bound in found.items()}

    def _interference(self) -> InterferenceCheck:
        if self.ranges is not None:
            return TotalInterference(self.ranges, self.sharing)
        computations = set(self.kinds.global_computations)
        values = self.alias.dataflow.values
        return PartialInterference(
            self.ordering, [x for x in values if x.instruction.parent in computations]
        )

    def _buffers_by_computation(self) -> dict[Computation, list[HloBuffer]]:
        """The buffers to place, by the computations of their values."""
        found: dict[Computation, list[HloBuffer]] = {}
        for buffer in self.alias.buffers:
            if buffer.nbytes and (self.options.tables or not buffer.values[0].shape.is_tuple):
                for computation in {x.instruction.parent: None for x in buffer.values}:
                    found.setdefault(computation, []).append(buffer)
        return found

    def _sorted(self, buffers: Iterable[HloBuffer]) -> list[HloBuffer]:
        order = self.options.buffer_order
        ranges = self.ranges
        if order is BufferOrder.SIZE:
            return sorted(buffers, key=lambda x: (-x.nbytes, not x.live_out, self._first(x)))
        if order is BufferOrder.START and ranges is not None:
            return sorted(
                buffers, key=lambda x: (min([ranges[v][0] for v in x.values]), self._first(x))
            )
        return sorted(buffers, key=self._first)

    def _first(self, buffer: HloBuffer) -> tuple[int, int]:
        """The place of its first instruction, and the least number of its values."""
        position, number = self.position, self.number
        return (
            min([position[x.instruction] for x in buffer.values]),
            min([number[x] for x in buffer.values]),
        )

    def _colour(self, buffer: HloBuffer) -> int:
        colours = {self.options.colorer(value): value for value in buffer.values}
        if len(colours) > 1:
            names = ", ".join(f"{value} has colour {x}" for x, value in colours.items())
            raise LowtideError(f"values that share one place need one colour: {names}")
        return next(iter(colours))

    # -- one buffer ----------------------------------------------------------------------------

    def _place(self, buffer: HloBuffer) -> None:
        if buffer.values[0] in self.table.of_value or self._place_special(buffer):
            return
        if self._reuse(buffer) or self._put_off(buffer):
            return
        self.candidates.append(self._open(AllocationKind.ARENA, buffer))

    def _place_special(self, buffer: HloBuffer) -> bool:
        """Give constants, arguments and tuples allocations of their own."""
        for value in buffer.values:
            instruction = value.instruction
            if instruction.opcode is Opcode.CONSTANT:
                if self.options.allocate_constants:
                    allocation = self._open(AllocationKind.CONSTANT, buffer)
                    allocation.constant = instruction
                return True
            if instruction.opcode is Opcode.PARAMETER and instruction.parent is self.module.entry:
                self._place_argument(buffer, value)
                return True
        if any(value.shape.is_tuple for value in buffer.values):
            self._open(AllocationKind.ARENA, buffer).is_tuple = True
            return True
        return False

    def _place_argument(self, buffer: HloBuffer, value: HloValue) -> None:
        number = value.instruction.attributes_as(Parameter).number
        allocation = self._open(AllocationKind.ARGUMENT, buffer)
        allocation.parameter = (number, value.index)
        allocation.output = self.aliases.get(allocation.parameter)
        allocation.is_tuple = value.shape.is_tuple
        if allocation.output is not None:
            self.candidates.append(allocation)

    def _place_thread_local(self, buffer: HloBuffer) -> None:
        values = buffer.values
        if values[0] in self.table.of_value:
            return
        if values[0].instruction.opcode is not Opcode.CONSTANT:
            self._open(AllocationKind.THREAD_LOCAL, buffer)
        elif self.options.allocate_constants:
            self._open(AllocationKind.CONSTANT, buffer).constant = values[0].instruction

    def _open(self, kind: AllocationKind, buffer: HloBuffer) -> OpenAllocation[HloValue]:
        return self.table.open(kind, buffer.nbytes, self._colour(buffer), buffer.values)

    def _put_off(self, buffer: HloBuffer) -> bool:
        """Leave a temporary to the simulation, where all its computations have a total order."""
        if buffer.live_out:
            return False
        computations = [value.instruction.parent for value in buffer.values]
        if any(self.ordering.sequential_order(x) is None for x in computations):
            return False
        self.waiting.setdefault(computations[0], []).append(buffer)
        return True

    # -- reuse ---------------------------------------------------------------------------------

    def _reuse(self, buffer: HloBuffer) -> bool:
        """Put a buffer where an operand lies, or into the newest allocation that takes it."""
        demand = self._demand(buffer)
        tried = list(self._operand_allocations(buffer))
        for allocation in (*tried, *reversed(self.candidates)):
            if self._takes(allocation, demand):
                for value in buffer.values:
                    self.table.put(value, allocation)
                    self.interference.add(allocation, value)
                return True
        return False

    def _demand(self, buffer: HloBuffer) -> _Demand:
        hidden = self.options.must_not_live_out
        copies = [x.instruction for x in buffer.values if x.instruction.opcode is Opcode.COPY]
        return _Demand(
            buffer.values,
            buffer.nbytes,
            self._colour(buffer),
            buffer.live_out,
            any(hidden(value.instruction, value.index) for value in buffer.values),
            [x for copy in copies for x in self.alias.dataflow.defined_by(copy.operands[0])],
        )

    def _operand_allocations(self, buffer: HloBuffer) -> Iterator[OpenAllocation[HloValue]]:
        for value in buffer.values:
            if value.index:
                continue
            for operand in value.instruction.operands:
                for found in self.alias.dataflow.value_set(operand):
                    allocation = self.table.of_value.get(found)
                    if allocation is not None:
                        yield allocation

    def _takes(self, allocation: OpenAllocation[HloValue], demand: _Demand) -> bool:
        nbytes = allocation.nbytes
        if demand.nbytes > nbytes or (demand.live_out and demand.nbytes != nbytes):
            return False
        if not self.options.can_use_allocation(demand.colour, allocation.colour):
            return False
        if not allocation.is_reusable:
            return False
        if demand.hidden and any(x.live_out for x in allocation.offsets):
            return False
        if any(x in allocation.offsets for x in demand.copied):
            return False
        return self.interference.allows(allocation, demand.values)

    # -- what was put off, and presets ---------------------------------------------------------

    def _simulate(self) -> None:
        if self.ranges is not None and self.options.whole_module:
            buffers = [x for found in self.waiting.values() for x in found]
            self._lay_out(buffers, self.ranges, whole_module=True)
            return
        for computation, buffers in self.waiting.items():
            ranges = computation_ranges(computation, self.ordering, buffers)
            self._lay_out(buffers, ranges, whole_module=False)

    def _lay_out(self, buffers: Sequence[HloBuffer], ranges: Ranges, *, whole_module: bool) -> None:
        """Lay out the buffers of each colour by a simulation, in one heap or several."""
        by_colour: dict[int, list[HloBuffer]] = {}
        for buffer in buffers:
            by_colour.setdefault(self._colour(buffer), []).append(buffer)
        for colour in sorted(by_colour):
            values = [x for buffer in by_colour[colour] for x in buffer.values]
            run = simulate_heap(values, ranges, self.alias, self.sharing, self.number)
            limit = self.options.memory_limit.get(colour, -1)
            algorithm = algorithm_named(self.options.algorithm, limit)
            by_number = {self.number[value]: value for value in values}
            for heap in algorithm(run.steps, self.options.alignment(colour)).heaps:
                allocation = self.table.open(AllocationKind.ARENA, heap.nbytes, colour)
                for number, chunk in heap.chunks.items():
                    self.table.put(by_number[number], allocation, chunk.offset)
                events = tuple([x for x in run.events if x.value in heap.chunks])
                allocation.traces.append((whole_module, events))
                allocation.peak = tuple(values_at_peak(events, by_number))

    def _place_presets(self) -> None:
        allocations: dict[int, OpenAllocation[HloValue]] = {}
        for preset in self.options.presets:
            value = self.alias.dataflow.defined_at(preset.instruction, preset.index)
            if value is None:
                raise LowtideError(
                    f"{preset.instruction.name} makes no value at {list(preset.index)}, which has "
                    "a preset place"
                )
            buffer = self.alias.buffer_of(value)
            colour = self._colour(buffer)
            if preset.offset % self.options.alignment(colour):
                raise LowtideError(f"the preset offset {preset.offset:,} of {value} is not aligned")
            if colour not in allocations:
                allocations[colour] = self.table.open(AllocationKind.ARENA, 0, colour)
            allocation = allocations[colour]
            allocation.nbytes = max(allocation.nbytes, preset.offset + buffer.nbytes)
            for member in buffer.values:
                self.table.put(member, allocation, preset.offset)

    # -- the result ----------------------------------------------------------------------------

    def _values_at_position(
        self, instruction: Instruction, index: tuple[int, ...]
    ) -> tuple[HloValue, ...]:
        return self.alias.dataflow.value_set(instruction, index)

    def _labels(self) -> Mapping[HloValue, Labels]:
        ranges = self.ranges or {}
        return {
            value: Labels(buffer.number, value.is_phi, ranges.get(value))
            for buffer in self.alias.buffers
            for value in buffer.values
        }
