"""Copies of modules and computations: same instructions, other objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Final

from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.metadata import FileLocation, StackFrame, StackFrames
from lowtide.ir.module import Module
from lowtide.ir.schedule import Schedule
from lowtide.ir.traversal import callees
from lowtide.records import dataclass


@dataclass(slots=True)
class CloneMap:
    """A map from originals to copies.

    One map can serve several calls of `clone_computation` with one target; a computation that is
    in it already is not copied again. `frame_offsets` tells by how much the stack frame ids of a
    source module grow.
    """

    instructions: dict[Instruction, Instruction] = field(default_factory=dict)
    computations: dict[Computation, Computation] = field(default_factory=dict)
    frame_offsets: dict[Module, int] = field(default_factory=dict)


_OWN_FIELDS: Final = frozenset(
    {"_entry", "computation_names", "computations", "instruction_names", "print_order", "schedule"}
)
_HEADER_FIELDS: Final = tuple([x for x in Module.__slots__ if x not in _OWN_FIELDS])
"""The fields of a module whose values are immutable, or numbers, and can be shared."""


def clone_module(module: Module, mapping: CloneMap | None = None) -> Module:
    """Return a copy of a module with the same names, ids, versions, order and text.

    `mapping` is filled with the copies of all computations and instructions. Shapes, attributes,
    literals and metadata are shared, since they never change.
    """
    mapping = CloneMap() if mapping is None else mapping
    copy = Module(module.name)
    for name in _HEADER_FIELDS:
        setattr(copy, name, getattr(module, name))
    copy.computation_names = module.computation_names.copy()
    copy.instruction_names = module.instruction_names.copy()
    for name, computation in module.computations.items():
        target = Computation(computation.name, copy, computation.id)
        copy.computations[name] = mapping.computations[computation] = target
    for computation in module.computations.values():
        _fill(computation, mapping.computations[computation], mapping, None)
    if module.has_entry:
        copy.entry = mapping.computations[module.entry]
    copy.schedule = _clone_schedule(module.schedule, mapping)
    copied = [mapping.computations.get(x) for x in module.print_order]
    copy.print_order = tuple([x for x in copied if x is not None])
    return copy


def clone_computation(
    computation: Computation,
    into: Module,
    name: str | None = None,
    mapping: CloneMap | None = None,
    *,
    keep_callees: bool = False,
) -> Computation:
    """Return a copy of a computation in the module `into`, which may be its own.

    The computation (`name`: its name) and its instructions get numbers where their names are
    taken; ids stay. What it calls is copied too, each callee once, and stands before it; with
    `keep_callees` the copy calls the same computations, which `into` must hold then. Stack frames
    come along. The schedule of `into` does not change.

    `mapping` is filled with the copies; a computation that it knows already is returned from there.
    """
    mapping = CloneMap() if mapping is None else mapping
    if keep_callees:
        if computation.module is not into:
            raise ValueError(f"{into.name} does not hold what {computation.name} calls")
        wanted = [computation]
    else:
        wanted = _callees_first(computation)
    _import_frames({c.module: None for c in wanted}, into, mapping)
    for source in wanted:
        if source in mapping.computations:
            continue
        wish = name if name is not None and source is computation else source.name
        target = into.add_computation(wish)
        mapping.computations[source] = target
        _fill(source, target, mapping, into.instruction_names.unique)
    return mapping.computations[computation]


def _callees_first(computation: Computation) -> list[Computation]:
    """Return all that a computation calls, directly or not, callees first; itself stands last."""
    order: list[Computation] = []
    seen = {computation}
    stack = [(computation, iter(callees(computation)))]
    while stack:
        current, remaining = stack[-1]
        callee = next((c for c in remaining if c not in seen), None)
        if callee is None:
            order.append(current)
            stack.pop()
        else:
            seen.add(callee)
            stack.append((callee, iter(callees(callee))))
    return order


def _fill(
    source: Computation, target: Computation, mapping: CloneMap, unique: Callable[[str], str] | None
) -> None:
    """Copy all instructions; `unique` names them, None keeps their names."""
    copies = mapping.instructions
    computations = mapping.computations
    offset = mapping.frame_offsets.get(source.module, 0)
    instructions = target.instructions
    for x in source.instructions.values():
        name = x.name if unique is None else unique(x.name)
        called = x.called_computations
        if called:
            called = tuple([computations.get(c, c) for c in called])
        # Operands follow below: an instruction may read one that was created after it.
        copy = Instruction(name, x.opcode, x.shape, (), x.attributes, called, target, x.id)
        copy.annotations = x.annotations
        copy.position = x.position
        metadata = x.raw_metadata
        if offset and metadata.stack_frame_id:
            metadata = metadata.with_stack_frame(metadata.stack_frame_id + offset)
        copy.set_metadata(metadata)
        instructions[name] = copies[x] = copy
    for x in source.instructions.values():
        _connect(x, copies[x], copies)
    target.parameters = [copies[p] for p in source.parameters]
    target.execution_thread = source.execution_thread
    if source.has_root:
        target.root = copies[source.root]
    target._next_id = source._next_id
    target.version = source.version


def _connect(x: Instruction, copy: Instruction, copies: dict[Instruction, Instruction]) -> None:
    """Give a copy its operands and users, both in the order of the original."""
    copy.operands = tuple([copies[operand] for operand in x.operands])
    copy.users = {copies[user]: None for user in x.users}
    if x.control_predecessors:
        copy.control_predecessors = {copies[p]: None for p in x.control_predecessors}
    if x.control_successors:
        copy.control_successors = {copies[s]: None for s in x.control_successors}


def _clone_schedule(schedule: Schedule | None, mapping: CloneMap) -> Schedule | None:
    if schedule is None:
        return None
    copies = mapping.instructions
    return Schedule(
        {
            mapping.computations[computation]: tuple([copies[x] for x in order])
            for computation, order in schedule.sequences.items()
        }
    )


# -- stack frames ------------------------------------------------------------------------------


def _import_frames(sources: Iterable[Module], into: Module, mapping: CloneMap) -> None:
    for source in sources:
        if source in mapping.frame_offsets:
            continue
        tables, known = source.stack_frames, into.stack_frames
        shared = source is into or not tables or tables == known
        mapping.frame_offsets[source] = 0 if shared else len(known.frames)
        if not shared:
            into.stack_frames = _joined(known, tables)


def _joined(first: StackFrames, second: StackFrames) -> StackFrames:
    """Return both tables one behind the other; ids of the second grow by the sizes of the first."""
    files, functions = len(first.file_names), len(first.function_names)
    locations = [
        FileLocation(
            _moved(x.file_name_id, files),
            _moved(x.function_name_id, functions),
            x.line,
            x.end_line,
            x.column,
            x.end_column,
        )
        for x in second.file_locations
    ]
    frames = [
        StackFrame(
            _moved(x.file_location_id, len(first.file_locations)),
            _moved(x.parent_frame_id, len(first.frames)),
        )
        for x in second.frames
    ]
    return StackFrames(
        first.file_names + second.file_names,
        first.function_names + second.function_names,
        first.file_locations + tuple(locations),
        first.frames + tuple(frames),
    )


def _moved(number: int, by: int) -> int:
    """Return an id behind `by` other entries; 0 means none and stays."""
    return number + by if number else 0
