"""Kernels of loops: each element of the results is computed at its own index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lowtide.codegen.cpu.domain import domains_of
from lowtide.codegen.cpu.strided import is_aligned, stored_in_turn
from lowtide.codegen.elements.elements import Elements, Frame, Index, Mask
from lowtide.codegen.elements.moves import moved_types, retyped
from lowtide.codegen.elements.operands import Bound, bind, leaves, members, roots_of
from lowtide.codegen.elements.reading import Array, address, offset, strides
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import ZERO
from lowtide.codegen.kernel import ARGUMENTS, Code, Plan
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.ops.in_place import ONE_PASS, in_place_pairs


@dataclass(frozen=True, eq=False, slots=True)
class Output:
    """One result: the elements of `source` are stored in it, from `update`'s start if it is one.

    `leaf` says which of the arrays of `source` they are, and `dimensions` those of that array.
    """

    source: Instruction
    array: int
    dimensions: tuple[int, ...]
    leaf: int = 0
    update: Instruction | None = None


def plan_loop(instruction: Instruction, target: Target) -> Plan:
    """Return how an instruction runs whose elements are each computed by themselves."""
    return Plan(lambda: _code(instruction, target))


def outputs_of(instruction: Instruction) -> list[Output]:
    """Return what a kernel of loops stores; updates in place store only what is new."""
    root = instruction
    if instruction.opcode is Opcode.FUSION:
        root = instruction.called_computations[0].root
    in_place = {output for _, output in in_place_pairs(instruction)}
    positions = [index for index, leaf in instruction.shape.leaves() if leaf.is_array]
    sources = [
        (source, leaf, shape.dimensions)
        for source in roots_of(root)
        for leaf, shape in enumerate(leaves(source.shape))
    ]
    found = []
    for number, ((source, leaf, sizes), at) in enumerate(zip(sources, positions, strict=True)):
        update = _update_behind(source) if at in in_place else None
        if update is None:
            found.append(Output(source, number, sizes, leaf))
        else:
            written = update.operands[1]
            found.append(Output(written, number, written.shape.dimensions, 0, update))
    return found


def _update_behind(source: Instruction) -> Instruction | None:
    return source if source.opcode is Opcode.DYNAMIC_UPDATE_SLICE else None


def _code(instruction: Instruction, target: Target) -> Code:
    """Outputs of equal dimensions, up to those of size 1, are computed together.

    In a fusion of one pass, results may lie over operands of their size, which smaller results
    read, too: those come first, and each group is a phase.
    """
    groups: dict[tuple[int, ...], list[Output]] = {}
    for output in outputs_of(instruction):
        groups.setdefault(_without_ones(output.dimensions), []).append(output)
    written = [
        loop_parts(instruction, target, outputs, f"loop{number}")
        for number, (_, outputs) in enumerate(sorted(groups.items(), key=lambda x: prod(x[0])))
    ]
    if instruction.annotations.backend_config == ONE_PASS:
        return in_turn([concatenated(x, f"parts{i}") for i, x in enumerate(written) if x])
    parts = [part for group in written for part in group]
    return concatenated(parts) if parts else Code((), ())


def _without_ones(dimensions: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([x for x in dimensions if x != 1])


def in_turn(codes: Sequence[Code]) -> Code:
    """Return the phases of all codes, one after the other."""
    text = "\n".join(dict.fromkeys([line for x in codes for line in x.globals.splitlines()]))
    functions = [x for code in codes for x in code.functions]
    return Code(tuple(functions), tuple([x for code in codes for x in code.phases]), text)


def loop_parts(
    instruction: Instruction, target: Target, outputs: Sequence[Output], name: str
) -> list[Part]:
    """Return functions that compute and store outputs of equal dimensions, none if empty.

    The names of the functions begin with `name`.
    """
    from lowtide.codegen.cpu.loop_kernel import Job, loop_part

    raw = moved_types(members(instruction))

    def visit(elements: Elements, index: Index) -> None:
        elements.raw = raw
        bound = retyped(bind(elements.function, instruction), raw)
        stored(elements, outputs, bound, [index], None)

    shape = leaves(instruction.shape)[outputs[0].array]
    order = sorted(range(shape.rank), key=lambda d: -strides(shape)[d])
    found = domains_of(outputs[0].dimensions, order, target, visit)
    job = Job(instruction, target, tuple(outputs), raw)
    return [
        loop_part(job, f"{name}_{number}", domain, trial)
        for number, (domain, trial) in enumerate(found)
    ]


@dataclass(frozen=True, slots=True)
class Part:
    """A function of pieces of work, and what it needs of the module, other functions among it."""

    function: Function
    units: int
    unit_seconds: float
    globals: str = ""
    others: tuple[Function, ...] = ()


def concatenated(parts: Sequence[Part], name: str = "parts") -> Code:
    """Return one phase which has the pieces of all parts; `name` is that of its function."""
    text = "\n".join(dict.fromkeys([line for x in parts for line in x.globals.splitlines()]))
    functions = [y for x in parts for y in (*x.others, x.function)]
    units = sum([x.units for x in parts])
    if len(parts) == 1:
        phase = Phase(parts[0].function.name, units, parts[0].unit_seconds)
        return Code(tuple(functions), (phase,) if units else (), text)
    fn = Function(name, ARGUMENTS)
    first = 0
    for part in parts:
        begin = fn.max(fn.sub("%begin", first), 0)
        end = fn.min(fn.sub("%end", first), part.units)
        first += part.units
        with fn.when(fn.compare("slt", begin, end)):
            given = f"ptr %buffers, ptr %scratch, i64 {begin}, i64 {end}, i64 %thread"
            fn.do(f"call void @{part.function.name}({given})")
    total = sum([x.units * x.unit_seconds for x in parts])
    phase = Phase(fn.name, units, total / max(units, 1))
    return Code((*functions, fn), (phase,) if units else (), text)


def stored(
    elements: Elements,
    outputs: Sequence[Output],
    bound: Bound,
    indices: Sequence[Index],
    mask: Mask | None,
) -> None:
    """Compute outputs at some indices, then store them all.

    The indices are in an array of the dimensions of the first output; others have the same but for
    those of size 1. Several indices are those of the steps of a loop, for which outputs that lie so
    in memory are stored side by side.
    """
    found = []
    for output in outputs:
        values, places = [], []
        for position in indices:
            index = _fitted(position, outputs[0].dimensions, output.dimensions)
            element = elements.all_at(output.source, index, bound.frame, mask)
            values.append(element.values[output.leaf])
            places.append(_place(elements, bound.frame, output, index))
        found.append((bound.results[output.array], values, places))
    for array, values, places in found:
        if not stored_in_turn(elements, array, places, values, mask):
            for value, place in zip(values, places, strict=True):
                store(elements, array, place, value, mask)


def _fitted(index: Index, dimensions: tuple[int, ...], wanted: tuple[int, ...]) -> Index:
    """Return an index where dimensions of size 1 stand elsewhere."""
    if dimensions == wanted:
        return index
    rest = iter([x for x, size in zip(index, dimensions, strict=True) if size != 1])
    return tuple([ZERO if size == 1 else next(rest) for size in wanted])


def _place(elements: Elements, frame: Frame, output: Output, index: Index) -> Index:
    if output.update is None:
        return index
    return updated_place(elements, frame, output.update, index)


def updated_place(elements: Elements, frame: Frame, update: Instruction, index: Index) -> Index:
    """Return where a dynamic-update-slice writes element `index` of what it writes."""
    target, what = update.operands[0].shape, update.operands[1].shape
    found = []
    for d, position in enumerate(index):
        start = elements.all_at(update.operands[2 + d], (), frame)
        free = target.dimensions[d] - what.dimensions[d] + 1
        found.append(position + elements.looked_up(start, free))
    return tuple(found)


def store(elements: Elements, array: Array, index: Index, value: Value, mask: Mask | None) -> None:
    """Store the value of an element where it lies; lanes that a mask leaves out are not touched."""
    fn, target = elements.function, elements.target
    place = offset(array.shape, index)
    elements.reads.append((array, place))
    elements.writes.append((array, place))
    if not place.varies:
        pointer = address(elements, array, place)
        memory.store(fn, target, value, pointer, None)
        return
    vector = value if value.lanes else elements.splat(value, elements.level)
    name = None if mask is None else elements.mask_lanes(mask, elements.lanes)
    if place.lane_step == 1:
        streamed = elements.is_streaming and name is None and is_aligned(vector, place)
        memory.store(fn, target, vector, address(elements, array, place), name, streamed=streamed)
        return
    memory.scatter_store(fn, target, vector, array.pointer, elements.vector(place), name)
