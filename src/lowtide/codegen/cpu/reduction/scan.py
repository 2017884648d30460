"""Scans: several independent chains of steps run side by side.

Where the dimension stepped along is not the last one, a vector steps along with as many chains as
it has lanes. Otherwise single elements step, of several rows or of several parts of a row at once.
The totals before each part are known from the sums of the parts, which a first phase makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, final

from lowtide.codegen.cpu.cost import seconds, vector_cycles, widest
from lowtide.codegen.cpu.reduction.folding import folded_lanes
from lowtide.codegen.cpu.reduction.strip import Strip, StripStep
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.lanes import first_lanes
from lowtide.codegen.elements.operands import bind
from lowtide.codegen.elements.parts import chosen
from lowtide.codegen.elements.reducers import carried, neutral, renamed
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan, rounded
from lowtide.codegen.library.scan_steps import (
    Carry,
    ScanSteps,
    added,
    combined,
    split_carries,
    widened,
)
from lowtide.codegen.library.scratch import ScratchArray, stored_bytes
from lowtide.codegen.space import decomposed, lane_variable
from lowtide.codegen.value import Value, register_bytes
from lowtide.ir import Instruction
from lowtide.ir.attributes import Scan
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.scan_steps import has_chains

CHAINS: Final = 8
"""Chains that run side by side: as many as hide the time that a step takes."""

VECTORS: Final = 4
"""Vectors that do."""

_UNIT: Final = 8192
"""Elements of a unit of work, at least where there are as many."""

_LEAST_PART: Final = 2048
"""Steps of a part of a row, at least."""

_MOST_PARTS: Final = 64


def plan_scan(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return how a scan runs, None where its steps are not chains of elements."""
    if not has_chains(instruction):
        return None
    attributes = instruction.attributes_as(Scan)
    dimensions = instruction.operands[0].shape.dimensions
    others = tuple([x for d, x in enumerate(dimensions) if d != attributes.dimension])
    if attributes.dimension < len(dimensions) - 1 and others[-1] > 1:
        return KernelPlan(lambda: _Across(instruction, target, others).code())
    chains = _Along(instruction, target, others)
    return KernelPlan(lambda: _Along(instruction, target, others).code(), chains.shared_bytes)


def _step_seconds(scan: Instruction, lanes: int) -> float:
    """About how long a step of a chain takes, for each of the lanes."""
    body = list(scan.called_computations[0].instructions.values())
    nbytes = sum([register_bytes(x.shape.element_type) for x in scan.operands])
    return seconds(nbytes, vector_cycles(body) / max(lanes, 1))


@final
class _Across:
    """Vectors across chains."""

    def __init__(self, scan: Instruction, target: Target, others: tuple[int, ...]) -> None:
        self.scan = scan
        self.others = others
        body = scan.called_computations[0].instructions.values()
        most = target.vector_bytes // max(widest(body), widest([scan]))
        lanes = 2
        while lanes < min(most, others[-1]):
            lanes *= 2
        self.lanes = lanes
        self.function = Function("scan", ARGUMENTS)
        self.elements = vector_elements(self.function, target, lanes)
        self.block = VECTORS * lanes

    def code(self) -> KernelCode:
        """Return the code."""
        fn, elements, size = self.function, self.elements, self.others[-1]
        self.steps = ScanSteps(elements, self.scan, bind(fn, self.scan))
        blocks = -(-size // self.block)
        units = prod(self.others[:-1]) * blocks
        with elements.scopes.loop("%begin", "%end") as unit:
            lead = decomposed(elements, fn.div(unit.index, blocks), self.others[:-1])
            start = fn.mul(fn.rem(unit.index, blocks), self.block)
            whole = size - size % self.block
            if whole:
                with elements.scopes.loop(
                    start, fn.min(whole, fn.add(start, 1)), self.block
                ) as loop:
                    firsts = [fn.add(loop.index, i * self.lanes) for i in range(VECTORS)]
                    self._chains(lead, [(lane_variable(elements, x, size), None) for x in firsts])
            if whole < size:
                with elements.scopes.when(fn.compare("sge", start, whole)):
                    self._chains(lead, self._rest(whole, size))
        each = _step_seconds(self.scan, self.lanes) * self.steps.length * min(self.block, size)
        text = "\n".join(elements.globals.values())
        return KernelCode((fn,), (Phase(fn.name, units, each),), text)

    def _rest(self, whole: int, size: int) -> list[tuple[Affine, Mask | None]]:
        found: list[tuple[Affine, Mask | None]] = []
        for start in range(whole, size, self.lanes):
            left = size - start
            mask = Mask(first_lanes(left, self.lanes), self.lanes, 0) if left < self.lanes else None
            found.append((lane_variable(self.elements, start, size), mask))
        return found

    def _chains(
        self, lead: Sequence[Affine], columns: Sequence[tuple[Affine, Mask | None]]
    ) -> None:
        """Some vectors of chains from start to end."""
        elements, steps = self.elements, self.steps
        places = [((*lead, x), mask) for x, mask in columns]
        starts = [steps.start(at, mask, self.lanes) for at, mask in places]
        flat = [x for values in starts for x in values]
        each = len(flat) // len(places)
        with elements.scopes.loop(0, steps.length, 1, carried(flat)) as loop:
            number = elements.indices.variable(loop.index, steps.length)
            now = renamed(flat, loop.values)
            after = []
            for i, (at, mask) in enumerate(places):
                after += steps.step(at, number, now[i * each : (i + 1) * each], mask)
            loop.next = [name for x in after for name in x.names]
        last = renamed(flat, loop.results)
        for i, (at, mask) in enumerate(places):
            steps.finish(at, last[i * each : (i + 1) * each], mask)


@final
class _Along:
    """Single elements, along rows or along parts of them."""

    def __init__(self, scan: Instruction, target: Target, others: tuple[int, ...]) -> None:
        self.scan = scan
        self.target = target
        self.others = others
        self.rows = prod(others)
        attributes = scan.attributes_as(Scan)
        self.length = scan.operands[0].shape.dimensions[attributes.dimension]
        self.carries: tuple[Carry, ...] = split_carries(scan) or ()
        self.parts = self._part_count()
        self.part = self.length // self.parts
        self.fields: list[ScratchArray] = []
        self.shared_bytes = 0
        for x in scan.operands[len(scan.operands) - attributes.num_carries :]:
            if self.parts > 1:
                self.fields.append(ScratchArray(x.shape.element_type, self.shared_bytes))
                count = self.rows * self.parts * stored_bytes(x.shape.element_type)
                self.shared_bytes += rounded(count)

    def _part_count(self) -> int:
        """In how many parts a row is stepped through; it depends on sizes only."""
        if not self.carries or self.rows >= CHAINS:
            return 1
        wanted = min(_MOST_PARTS, self.length // _LEAST_PART)
        return max(1, wanted // CHAINS * CHAINS)

    def code(self) -> KernelCode:
        """Return the code: sums of parts where rows are split, then the steps."""
        functions, phases, text = [], [], list[str]()
        each = _step_seconds(self.scan, 1) * self.part
        if self.parts > 1:
            first = self._sums()
            functions.append(first)
            phases.append(Phase(first.name, self.rows * self.parts, each / 4))
        chains = self.rows * self.parts
        many = max(1, _UNIT // self.part)
        many = -(-many // CHAINS) * CHAINS
        second = self._steps(chains, many)
        functions.append(second.function)
        text += second.globals.values()
        phases.append(Phase(second.function.name, -(-chains // many), each * min(many, chains)))
        return KernelCode(tuple(functions), tuple(phases), "\n".join(text))

    # -- sums ----------------------------------------------------------------------------------

    def _sums(self) -> Function:
        """The first phase: what each part adds to the carries."""
        fn = Function("sums", ARGUMENTS)
        body = self.scan.called_computations[0].instructions.values()
        lanes = max(2, self.target.vector_bytes // max(widest(body), widest([self.scan])))
        elements = vector_elements(fn, self.target, lanes)
        steps = ScanSteps(elements, self.scan, bind(fn, self.scan))
        self._bind(fn)
        with elements.scopes.loop("%begin", "%end") as unit:
            others = tuple(decomposed(elements, fn.div(unit.index, self.parts), self.others))
            first = fn.mul(fn.rem(unit.index, self.parts), self.part)
            base = elements.indices.variable(first, self.length)

            def body_of(step: StripStep, totals: list[Value]) -> list[Value]:
                index = self._index(steps, others, base, step.linear)
                frame = steps.frame(index, (), step.mask)
                more = widened(elements, added(elements, self.carries, others, frame), lanes)
                more = self._masked(elements, more, step.mask)
                return combined(elements, self.carries, totals, more)

            start = widened(elements, self._neutral(), lanes)
            strip = Strip(elements, [self.part], lanes, has_first=False)
            found = strip.write([list(start) for _ in range(4)], body_of)
            total = folded_lanes(
                fn, found, lambda a, b: combined(elements, self.carries, list(a), list(b))
            )
            for field, value in zip(self.fields, total, strict=True):
                memory.store(fn, self.target, value, field.address(fn, unit.index))
        return fn

    def _index(self, steps: ScanSteps, others: Index, first: Affine, number: Affine) -> Index:
        """The index of element `number` of a part, in the order of memory."""
        place = first + number
        if steps.is_reverse:
            place = first * -1 + number + (self.length - self.part)
        place = place.within(0, self.length - 1)
        return (*others[: steps.dimension], place, *others[steps.dimension :])

    def _neutral(self) -> list[Value]:
        return [neutral(x.opcode, x.value.shape.element_type) for x in self.carries]

    def _masked(self, elements: Elements, values: list[Value], mask: Mask | None) -> list[Value]:
        if mask is None:
            return values
        level = elements.scopes.level
        no = Element(tuple(widened(elements, self._neutral(), elements.lanes)), level)
        return list(chosen(elements, mask, Element(tuple(values), level), no).values)

    def _bind(self, fn: Function) -> None:
        for field in self.fields:
            field.pointer = fn.gep("%scratch", field.first)

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, chains: int, many: int) -> Elements:
        """The second phase, or the only one: all steps of the chains of a unit."""
        fn = Function("steps", ARGUMENTS)
        elements = scalar_elements(fn, self.target)
        steps = ScanSteps(elements, self.scan, bind(fn, self.scan))
        self._bind(fn)
        start = fn.mul("%begin", many)
        stop = fn.min(fn.mul("%end", many), chains)
        whole = chains - chains % CHAINS
        if whole:
            with elements.scopes.loop(start, fn.min(stop, whole), CHAINS) as loop:
                self._run(steps, [fn.add(loop.index, i) for i in range(CHAINS)])
        if whole < chains:
            with elements.scopes.loop(fn.max(start, whole), stop) as loop:
                self._run(steps, [loop.index])
        return elements

    def _run(self, steps: ScanSteps, chains: Sequence[Integer]) -> None:
        """Some chains side by side, from start to end."""
        elements, fn = steps.elements, steps.elements.function
        rows = [tuple(decomposed(elements, fn.div(x, self.parts), self.others)) for x in chains]
        parts = [fn.rem(x, self.parts) for x in chains]
        firsts = [fn.mul(x, self.part) for x in parts]
        starts = [
            self._before(steps, others, chain, part)
            for others, chain, part in zip(rows, chains, parts, strict=True)
        ]
        flat = [x for values in starts for x in values]
        each = len(flat) // len(chains)
        with elements.scopes.loop(0, self.part, 1, carried(flat)) as loop:
            now = renamed(flat, loop.values)
            after = []
            for i, (others, first) in enumerate(zip(rows, firsts, strict=True)):
                place = elements.indices.variable(fn.add(first, loop.index), self.length)
                after += steps.step(others, place, now[i * each : (i + 1) * each], None)
            loop.next = [name for x in after for name in x.names]
        last = renamed(flat, loop.results)
        for i, others in enumerate(rows):
            self._end(steps, others, parts[i], last[i * each : (i + 1) * each])

    def _before(
        self, steps: ScanSteps, others: Index, chain: Integer, part: Integer
    ) -> list[Value]:
        """The carries at the start of a part: those before its row, and what parts before add."""
        elements, fn = steps.elements, steps.elements.function
        start = steps.start(others, None, 0)
        if self.parts == 1:
            return start
        row = fn.sub(chain, part)
        with elements.scopes.loop(0, part, 1, carried(start)) as loop:
            place = fn.add(row, loop.index)
            more = [
                memory.load(fn, self.target, x.type, x.address(fn, place), 0) for x in self.fields
            ]
            after = combined(elements, self.carries, renamed(start, loop.values), more)
            loop.next = [name for x in after for name in x.names]
        return renamed(start, loop.results)

    def _end(self, steps: ScanSteps, others: Index, part: Integer, carries: list[Value]) -> None:
        """What the last part of a row has more than others; then the row is over."""
        elements, fn = steps.elements, steps.elements.function
        first = self.part * self.parts
        is_last = fn.compare("eq", part, self.parts - 1)
        with elements.scopes.when(is_last):
            if first == self.length:  # A loop of no trips would read what is behind the array.
                steps.finish(others, carries, None)
                return
            with elements.scopes.loop(first, self.length, 1, carried(carries)) as loop:
                number = elements.indices.variable(loop.index, self.length)
                after = steps.step(others, number, renamed(carries, loop.values), None)
                loop.next = [name for x in after for name in x.names]
            steps.finish(others, renamed(carries, loop.results), None)
