"""Buffer assignments of XLA: from protobuf, joined with the module by the ids of instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lowtide.frontend.hlo_proto.buffer_assignment_sites import Position, is_phi, sites_of
from lowtide.frontend.hlo_proto.buffer_assignment_tables import SliceTables
from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural
from lowtide.frontend.hlo_proto.messages import parse_message
from lowtide.ir.buffer import (
    Allocation,
    AllocationKind,
    AssignedValue,
    BufferAssignment,
    BufferSlice,
    HeapEvent,
    HeapEventKind,
    HeapTrace,
)
from lowtide.ir.computation import Computation
from lowtide.ir.errors import HloProtoError, LowtideError
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import UNBOUNDED, Shape, ShapeIndex

HEAP_EVENTS: Final = {0: HeapEventKind.ALLOCATE, 1: HeapEventKind.FREE, 2: HeapEventKind.SHARE}
UNPLACED: Final = -1
"""The call site of a value of a computation that is applied per element and has no site."""


def read_buffer_assignment(data: bytes, module: Module, file: str = "") -> BufferAssignment:
    """Return the plan in a BufferAssignmentProto, the sizes and positions of its values checked.

    The blob names instructions by id only. So `module` is what `read_hlo_proto` returns for the
    module proto of the same executable, or a copy of that; HLO text has no ids. The number of a
    value is the id of its logical buffer, its buffer the least number that it is aliased with.
    Values of reducers and the like have call site -1. XLA writes a module out before it plans it,
    so that each computation runs at one place; where it does not, its values lie in the same slices
    at each place, unless the plan says otherwise.

    Raises HloProtoError with the path of the first field that is malformed or contradicts the
    module; LowtideError where an output has no place, and for a module that was read from text.
    """
    if module.source_text is not None:
        raise LowtideError(
            "a plan in protobuf names instructions by ids, which HLO text does not have: read the "
            "module from protobuf too"
        )
    try:
        message = parse_message("BufferAssignmentProto", data)
        return _Reader(message, module).read()
    except FieldError as error:
        raise HloProtoError(error.message, file=file, position=error.path) from None


def instruction_ids(module: Module) -> dict[int, Instruction]:
    """Return the instructions of a module from protobuf by the ids that plans name them by.

    Old files have numbers that are unique in the module; all others have the id of the
    computation in front.
    """
    ids = {}
    local: dict[int, Instruction] = {}
    count = 0
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            ids[computation.id << 32 | instruction.id] = instruction
            local[instruction.id] = instruction
            count += 1
    return {**local, **ids} if len(local) == count else ids


class _Reader:
    """Reads one message; each step checks its part against the module and the steps before."""

    def __init__(self, proto: Any, module: Module) -> None:
        self.proto = proto
        self.module = module
        self.ids = instruction_ids(module)
        self.sites = sites_of(module)
        self.first_site: dict[Computation, int] = {}
        for number, site in enumerate(self.sites):
            self.first_site.setdefault(site.computation, number)
        self.positions: dict[int, Position] = {}
        self.colours: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.site_of: dict[int, int] = {}
        self.live: dict[int, tuple[int, int]] = {}
        self.places: dict[int, BufferSlice] = {}

    def read(self) -> BufferAssignment:
        """Return the whole plan."""
        for path, message in _enumerated(self.proto, "logical_buffers"):
            _at(path, self._read_value, message)
        allocations = []
        for i, (path, message) in enumerate(_enumerated(self.proto, "buffer_allocations")):
            allocations.append(_at(path, self._read_allocation, message, i))
        for number, (instruction, _) in self.positions.items():
            if number not in self.places:
                message = f"no allocation holds value {number}, made by {instruction.name}"
                raise FieldError(message, "buffer_allocations")
        buffers = self._read_aliases()
        values = tuple([self._value(x, buffers[x]) for x in sorted(self.places)])
        tables = SliceTables(self.module, self.sites, values)
        outputs = tables.outputs()
        return BufferAssignment(
            tuple(self._with_outputs(allocations, outputs)),
            tables.call_sites(),
            outputs,
            kept_bytes=sum([x.kept_bytes for x in self.proto.buffer_allocations]),
            values=values,
            heap_traces=tuple(self._read_traces(allocations)),
            peak_values=dict(self._read_peaks(allocations)),
        )

    # -- values --------------------------------------------------------------------------------

    def _read_value(self, proto: Any) -> None:
        number = natural(proto.id, "id")
        if number in self.positions:
            raise FieldError(f"another value has id {number}", "id")
        instruction, index = _at("defined_at", self._position, proto.defined_at)
        shape = instruction.shape.at(index)
        size = natural(proto.size, "size")
        if not _size_fits(size, shape):
            raise FieldError(
                f"{size} bytes for {instruction.name}, whose shape {shape} has {shape.nbytes}",
                "size",
            )
        self.positions[number] = instruction, index
        self.sizes[number] = size
        self.colours[number] = natural(proto.color, "color")
        self.site_of[number] = self._site(proto, instruction)
        if proto.HasField("live_first"):
            first = natural(proto.live_first, "live_first")
            if proto.live_last < first:
                raise FieldError(f"expected a number from {first}", "live_last")
            self.live[number] = first, proto.live_last

    def _position(self, proto: Any) -> Position:
        number = proto.instruction_id
        instruction = self.ids.get(number)
        if instruction is None:
            raise FieldError(f"no instruction of the module has id {number}", "instruction_id")
        index = tuple(proto.shape_index)
        try:
            instruction.shape.at(index)
        except IndexError as error:
            raise FieldError(f"{instruction.name}: {error}", "shape_index") from None
        return instruction, index

    def _known(self, number: int, path: str) -> int:
        if number not in self.positions:
            raise FieldError(f"no value has id {number}", path)
        return number

    def _value(self, number: int, buffer: int) -> AssignedValue:
        instruction, index = self.positions[number]
        site = self.site_of[number]
        phi = site != UNPLACED and is_phi(self.sites[site], instruction)
        place, live = self.places[number], self.live.get(number)
        return AssignedValue(number, site, instruction, index, place, buffer, phi, live)

    def _site(self, proto: Any, instruction: Instruction) -> int:
        """Return the call site of a value."""
        if not proto.HasField("call_site"):
            return self.first_site.get(instruction.parent, UNPLACED)
        number: int = proto.call_site
        if number == UNPLACED and instruction.parent not in self.first_site:
            return number
        natural(number, "call_site", len(self.sites))
        if self.sites[number].computation is not instruction.parent:
            found = self.sites[number].computation.name
            message = f"{found} runs there, {instruction.name} is of {instruction.parent.name}"
            raise FieldError(message, "call_site")
        return number

    # -- allocations ---------------------------------------------------------------------------

    def _read_allocation(self, proto: Any, number: int) -> Allocation:
        if proto.index != number:
            raise FieldError(f"expected {number}, found {proto.index}", "index")
        size = natural(proto.size, "size")
        natural(proto.kept_bytes, "kept_bytes", size + 1)
        constant = None
        for path, message in _enumerated(proto, "assigned"):
            instruction = _at(path, self._read_assigned, message, proto)
            if instruction.opcode is Opcode.CONSTANT:
                constant = instruction
        if proto.is_constant and constant is None:
            raise FieldError("no constant lies in the allocation of a constant", "is_constant")
        parameter = self._parameter(proto) if proto.is_entry_computation_parameter else None
        return Allocation(
            number,
            _kind(proto),
            size,
            natural(proto.color, "color"),
            parameter,
            None,
            constant if proto.is_constant else None,
            proto.is_tuple,
            proto.maybe_live_out,
        )

    def _read_assigned(self, proto: Any, allocation: Any) -> Instruction:
        number = self._known(proto.logical_buffer_id, "logical_buffer_id")
        instruction, index = self.positions[number]
        if number in self.places:
            message = f"value {number}, made by {instruction.name}, has two places"
            raise FieldError(message, "logical_buffer_id")
        if proto.size != self.sizes[number]:
            raise FieldError(f"value {number} has {self.sizes[number]} bytes", "size")
        offset = natural(proto.offset, "offset")
        if offset + proto.size > allocation.size:
            raise FieldError(
                f"value {number} ends at {offset + proto.size}, behind the end of its allocation "
                f"of {allocation.size} bytes",
                "offset",
            )
        expected = instruction.shape.at(index).element_type
        if proto.element_type != expected.number:
            raise FieldError(
                f"{instruction.name} has type {expected.value}, number {expected.number}, found "
                f"{proto.element_type}",
                "element_type",
            )
        if self.colours[number] != allocation.color:
            raise FieldError(
                f"value {number} of memory space {self.colours[number]} lies in one of memory "
                f"space {allocation.color}",
                "logical_buffer_id",
            )
        self.places[number] = BufferSlice(allocation.index, offset, proto.size)
        return instruction

    def _parameter(self, proto: Any) -> tuple[int, ShapeIndex]:
        parameters = self.module.entry.parameters
        number, index = proto.parameter_number, tuple(proto.parameter_shape_index)
        if not 0 <= number < len(parameters):
            message = f"the module has {len(parameters)} parameters, none of number {number}"
            raise FieldError(message, "parameter_number")
        try:
            parameters[number].shape.at(index)
        except IndexError as error:
            raise FieldError(str(error), "parameter_shape_index") from None
        return number, index

    def _with_outputs(
        self, allocations: Sequence[Allocation], outputs: Sequence[BufferSlice]
    ) -> Iterator[Allocation]:
        """Yield the allocations; those that an output overwrites with the index of that output."""
        aliases = {
            (x.parameter, x.parameter_index): x.output_index
            for x in self.module.input_output_aliases
        }
        leaves = [index for index, _ in self.module.entry.root.shape.leaves()]
        first: dict[int, ShapeIndex] = {}
        for index, place in zip(leaves, outputs, strict=True):
            first.setdefault(place.allocation, index)
        for path, proto in _enumerated(self.proto, "buffer_allocations"):
            allocation = allocations[proto.index]
            if allocation.parameter is None or not proto.is_parameter_aliased_with_output:
                yield allocation
                continue
            output = aliases.get(allocation.parameter, first.get(allocation.index))
            if output is None:
                number, index = allocation.parameter
                message = f"no output overwrites parameter {number} at {list(index)}"
                raise FieldError(message, f"{path}.is_parameter_aliased_with_output")
            yield replace(allocation, output=output)

    # -- aliases, traces, peaks ----------------------------------------------------------------

    def _read_aliases(self) -> dict[int, int]:
        """Return per value the least number of those that it is aliased with, itself included."""
        least = {number: number for number in sorted(self.positions)}
        at = {position: number for number, position in reversed(self.positions.items())}

        def find(number: int) -> int:
            while least[number] != number:
                least[number] = least[least[number]]
                number = least[number]
            return number

        for path, message in _enumerated(self.proto, "buffer_aliases"):
            source = _at(path, self._known, message.source_buffer_id, "source_buffer_id")
            other = _at(path, self._aliased, message, at)
            first, second = sorted((find(source), find(other)))
            least[second] = first
        return {number: find(number) for number in least}

    def _aliased(self, proto: Any, at: Mapping[Position, int]) -> int:
        position = _at("location", self._position, proto.location)
        if proto.HasField("buffer_id"):
            return self._known(proto.buffer_id, "buffer_id")
        if position not in at:
            raise FieldError(f"no value is made by {position[0].name} there", "location")
        return at[position]

    def _read_traces(self, allocations: Sequence[Allocation]) -> Iterator[HeapTrace]:
        for path, message in _enumerated(self.proto, "heap_simulator_traces"):
            number = message.buffer_allocation_index
            _at(path, _in_range, number, allocations, "buffer_allocation_index")
            events = []
            for within, event in _enumerated(message, "events"):
                events.append(_at(f"{path}.{within}", self._event, event))
            yield HeapTrace(number, message.whole_module_simulation, tuple(events))

    def _event(self, proto: Any) -> HeapEvent:
        kind = lookup(HEAP_EVENTS, proto.kind, "kind")
        shares = None
        if kind is HeapEventKind.SHARE:
            shares = self._known(proto.share_with_canonical_id, "share_with_canonical_id")
        number = self._known(proto.buffer_id, "buffer_id")
        return HeapEvent(kind, number, proto.computation_name, proto.instruction_name, shares)

    def _read_peaks(
        self, allocations: Sequence[Allocation]
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        for path, message in _enumerated(self.proto, "peak_buffers"):
            _at(path, _in_range, message.index, allocations, "index")
            numbers = []
            for i, number in enumerate(message.logical_buffer_ids):
                numbers.append(_at(path, self._known, number, f"logical_buffer_ids[{i}]"))
            yield message.index, tuple(numbers)


def _kind(proto: Any) -> AllocationKind:
    if proto.is_entry_computation_parameter:
        return AllocationKind.ARGUMENT
    if proto.is_constant:
        return AllocationKind.CONSTANT
    if proto.is_thread_local:
        return AllocationKind.THREAD_LOCAL
    if proto.HasField("kept_bytes") or not proto.maybe_live_out:
        return AllocationKind.ARENA
    return AllocationKind.OUTPUT


def _size_fits(size: int, shape: Shape) -> bool:
    """Whether a value may have a size: that of its shape, more where an array is padded.

    Tiles pad arrays, and dynamic ones have their sizes behind them. Addresses have 8 or 4 bytes.
    """
    if shape.is_tuple:
        return size in (shape.nbytes, shape.nbytes // 2)
    if not shape.is_array:
        return size in (shape.nbytes, 0)
    tiled = shape.layout is not None and shape.layout.tiles
    if shape.is_dynamic or UNBOUNDED in shape.dimensions or tiled:
        return size >= shape.nbytes
    return size == shape.nbytes


def _in_range(number: int, allocations: Sequence[Allocation], path: str) -> None:
    if not 0 <= number < len(allocations):
        raise FieldError(f"there are {len(allocations)} allocations, none of index {number}", path)


def _enumerated(message: Any, field: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the message of each element of a repeated field."""
    for i, element in enumerate(getattr(message, field)):
        yield f"{field}[{i}]", element


def _at(path: str, function: Any, *arguments: Any) -> Any:
    """Return what a function returns; a FieldError in it gets the path in front."""
    try:
        return function(*arguments)
    except FieldError as error:
        raise error.under(path) from None
