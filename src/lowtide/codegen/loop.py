"""Kernels of loops: each element of the results is computed at its own index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.codegen import indexing
from lowtide.codegen.cost import element_bytes, seconds, vector_cycles, widest
from lowtide.codegen.elements import Elements, Frame, Index, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.kernel import ARGUMENTS, Code, Plan
from lowtide.codegen.operands import Bound, bind, leaves, members, roots_of
from lowtide.codegen.reading import Array, address, offset
from lowtide.codegen.space import decomposed, lane_variable, space_of
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.in_place import in_place_pairs


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
    groups: dict[tuple[int, ...], list[Output]] = {}
    for output in outputs_of(instruction):
        groups.setdefault(output.dimensions, []).append(output)
    written = [
        LoopKernel(instruction, target, outputs, f"loop{number}").write()
        for number, outputs in enumerate(groups.values())
    ]
    return concatenated(written)


@dataclass(frozen=True, slots=True)
class Part:
    """A function of pieces of work, and what it needs of the module."""

    function: Function
    units: int
    unit_seconds: float
    globals: str = ""


def concatenated(parts: Sequence[Part]) -> Code:
    """Return one phase which has the pieces of all parts, one after the other."""
    text = "\n".join(dict.fromkeys([x.globals for x in parts if x.globals]))
    functions = [x.function for x in parts]
    units = sum([x.units for x in parts])
    if len(parts) == 1:
        phase = Phase(functions[0].name, units, parts[0].unit_seconds)
        return Code(tuple(functions), (phase,) if units else (), text)
    fn = Function("parts", ARGUMENTS)
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


class LoopKernel:
    """Writes a function that computes and stores outputs of equal dimensions."""

    def __init__(
        self, instruction: Instruction, target: Target, outputs: Sequence[Output], name: str
    ) -> None:
        self.instruction = instruction
        self.target = target
        self.outputs = outputs
        self.members = members(instruction)
        self.function = Function(name, ARGUMENTS)
        self.space = space_of(outputs[0].dimensions, target, self._trial)
        self.lanes = self._lanes()
        self.elements = Elements(self.function, target, self.lanes)
        self.bound = bind(self.function, instruction)

    def write(self) -> Part:
        """Write the function."""
        space = self.space
        if space.units:
            if space.block:
                self._flat()
            else:
                self._nested()
        nbytes = sum([x.shape.element_type.nbytes for x in self.bound.results])
        nbytes += sum(
            [
                element_bytes(x.shape.element_type)
                for x in self.instruction.operands
                if x.shape.is_array and x.shape.rank
            ]
        )
        cycles = vector_cycles(self.members) / max(self.lanes, 1)
        each = seconds(nbytes, cycles) * space.unit_elements
        text = "\n".join(self.elements.globals.values())
        return Part(self.function, space.units, each, text)

    def _lanes(self) -> int:
        size = self.space.sizes[-1]
        most = max(self.target.vector_bytes // widest(self.members), 2)
        lanes = 1
        while lanes < min(most, size):
            lanes *= 2
        return lanes if lanes > 1 else 0

    def _trial(self, elements: Elements, index: Index) -> None:
        self._emit(elements, bind(elements.function, self.instruction), index, None)

    # -- loops ---------------------------------------------------------------------------------

    def _flat(self) -> None:
        """One loop over consecutive elements."""
        fn, (size,) = self.function, self.space.sizes
        block = self.space.block
        start = fn.mul("%begin", block)
        stop = fn.min(fn.mul("%end", block), size)
        self._line([], start, stop, size)

    def _nested(self) -> None:
        """Pieces by the outer groups, loops over the middle ones, vectors along the last."""
        sizes, outer = self.space.sizes, self.space.outer
        with self.elements.loop("%begin", "%end") as unit:
            positions = decomposed(self.elements, unit.index, sizes[:outer])
            self._middle(positions, list(sizes[outer:-1]))

    def _middle(self, positions: list[indexing.Affine], sizes: list[int]) -> None:
        if not sizes:
            size = self.space.sizes[-1]
            self._line(positions, 0, size, size)
            return
        with self.elements.loop(0, sizes[0]) as loop:
            here = self.elements.variable(loop.index, sizes[0])
            self._middle([*positions, here], sizes[1:])

    def _line(
        self, positions: list[indexing.Affine], start: Integer, stop: Integer, size: int
    ) -> None:
        """The elements from start to stop along the last group, the rest of it under a mask."""
        elements, fn, lanes = self.elements, self.function, self.lanes
        if not lanes:
            with elements.loop(start, stop) as loop:
                self._point(positions, lane_variable(elements, loop.index, size), None)
            return
        rest = size % lanes
        whole = size - rest
        full = fn.min(stop, whole) if rest else stop
        with elements.loop(start, full, lanes) as loop:
            self._point(positions, lane_variable(elements, loop.index, size), None)
        if not rest:
            return
        mask = Mask(_first_lanes(rest, lanes), lanes, 0)
        if isinstance(stop, int):
            self._point(positions, lane_variable(elements, whole, size), mask)
            return
        with elements.when(fn.compare("eq", stop, size)):
            self._point(positions, lane_variable(elements, whole, size), mask)

    def _point(
        self, positions: list[indexing.Affine], last: indexing.Affine, mask: Mask | None
    ) -> None:
        index = self.space.index(self.elements, [*positions, last])
        self._emit(self.elements, self.bound, index, mask)

    def _emit(self, elements: Elements, bound: Bound, index: Index, mask: Mask | None) -> None:
        """Compute an element of each output, then store them all."""
        found = []
        for output in self.outputs:
            at = index[: len(output.dimensions)]
            element = elements.all_at(output.source, at, bound.frame, mask)
            found.append(
                (
                    output,
                    element.values[output.leaf],
                    self._place(elements, bound.frame, output, at),
                )
            )
        for output, value, at in found:
            store(elements, bound.results[output.array], at, value, mask)

    def _place(self, elements: Elements, frame: Frame, output: Output, index: Index) -> Index:
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
    if not place.varies:
        pointer = address(elements, array, place)
        memory.store(fn, target, value, pointer, None)
        return
    vector = value if value.lanes else elements.splat(value, elements.level)
    name = None if mask is None else elements.mask_lanes(mask, elements.lanes)
    if place.lane_step == 1:
        memory.store(fn, target, vector, address(elements, array, place), name)
        return
    memory.scatter_store(fn, target, vector, array.pointer, elements.vector(place), name)


def _first_lanes(count: int, lanes: int) -> str:
    return "<" + ", ".join([f"i1 {str(i < count).lower()}" for i in range(lanes)]) + ">"
