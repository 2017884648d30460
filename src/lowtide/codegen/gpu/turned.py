"""Kernels of points that read some operands across memory: transposes, and what is fused with them.

Threads side by side compute results side by side. An operand that lies along another dimension
than these comes through shared memory: a block brings a tile of it as it lies, and computes the
results of the tile from there, so that memory is accessed side by side both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import gcd, prod
from typing import Final

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.domain import trial_of
from lowtide.codegen.elements.elements import Elements, Given
from lowtide.codegen.elements.operands import members
from lowtide.codegen.elements.outputs import stored
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan, kernel_function
from lowtide.codegen.gpu.points import (
    SUMS,
    THREADS,
    PointGroup,
    bound_to,
    domain_of,
    groups_of_outputs,
    lanes_of,
    point_kernel,
)
from lowtide.codegen.gpu.threads import SharedArray, barrier, block_number, thread_in_block
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import ZERO, Affine, Index, Variable
from lowtide.codegen.space import LoopSpace, decomposed, groups_of, lane_variable
from lowtide.codegen.value import vector_type
from lowtide.ir import ElementType, Instruction
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.ops.in_place import works_in_rows
from lowtide.records import dataclass

_SIDE: Final = {1: 64, 2: 64, 4: 64, 8: 32}
"""The side of a tile by the bytes of its elements."""

_SHORTEST: Final = 16
"""Elements along either dimension of a tile that are worth one."""

_LEAST: Final = 1 << 14
"""Elements of an operand that are worth a kernel of its own kind."""

_MOST_BYTES: Final = 40 << 10
"""Bytes of shared memory that tiles may take."""

_LINES: Final = 2000
"""Lines of code that are written out for all elements of a thread; else they are a loop."""

_MOVED: Final = {1: ElementType.U8, 2: ElementType.U16, 4: ElementType.U32, 8: ElementType.U64}
"""The types in which tiles are brought, by bytes."""


@dataclass(frozen=True, slots=True)
class TurnedRead:
    """A read across memory of the array at `pointer`, from the element `start` on.

    `steps` are how many elements further it is from one position along each loop to the next.
    """

    pointer: str
    steps: tuple[int, ...]
    start: int


@dataclass(frozen=True, eq=False, slots=True)
class TurnedGroup:
    """Results of equal dimensions, and the reads that are turned for them.

    Results lie along the last loop of `space`, and what is turned along loop number `along`.
    """

    group: PointGroup
    space: LoopSpace
    along: int
    reads: dict[TurnedRead, Array]
    lanes: int
    lines: int

    @property
    def sides(self) -> tuple[int, int]:
        """The sides of a tile: along what is turned, along the results."""
        nbytes = max([memory.element_bytes(x.shape.element_type) for x in self.reads.values()])
        sizes = self.space.sizes
        return _side(sizes[self.along], nbytes), _side(sizes[-1], nbytes)

    @property
    def run(self) -> int:
        """How many elements of what is turned a thread brings at once."""
        nbytes = max([memory.element_bytes(x.shape.element_type) for x in self.reads.values()])
        return gcd(16 // nbytes, self.space.sizes[self.along])


def _side(size: int, nbytes: int) -> int:
    return min(_SIDE[nbytes], 1 << (size - 1).bit_length())


def plan_turned(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how an instruction runs that reads large operands across memory, None for others."""
    inner = members(instruction)
    if works_in_rows(instruction) or not all(map(has_rule, inner)):
        return None
    if any(x.opcode in SUMS for x in inner):
        return None
    forms = [_form(x) for x in groups_of_outputs(instruction, target)]
    if not any(isinstance(x, TurnedGroup) for x in forms):
        return None
    return GpuPlan("turned", lambda: _code(forms))


def _code(forms: Sequence[TurnedGroup | PointGroup]) -> GpuCode:
    kernels = [
        _Turned.of(x).kernel() if isinstance(x, TurnedGroup) else point_kernel(x) for x in forms
    ]
    texts = dict.fromkeys([y for _, _, x in kernels for y in x])
    functions, launches = [x for x, _, _ in kernels], [x for _, x, _ in kernels]
    return GpuCode(tuple(functions), tuple(launches), "\n".join(texts))


# -- what is turned --------------------------------------------------------------------------------


def _form(group: PointGroup) -> TurnedGroup | PointGroup:
    """What is turned for a group of results; the group itself where nothing is."""
    domain = domain_of(group)
    trial = trial_of(domain, group.target, lambda x, index: _visit(x, group, index))
    space = LoopSpace(domain.sizes, groups_of(trial, domain.sizes))
    sizes = space.sizes
    if len(sizes) < 2 or sizes[-1] < _SHORTEST:
        return group
    elements = scalar_elements(Function("trial"), group.target)
    at = [elements.indices.variable(f"%at{i}", x) for i, x in enumerate(sizes)]
    _visit(elements, group, domain.index(space.index(elements, at)))
    variables = [x.terms[0][0] if x.terms else None for x in at]
    given = {x.pointer for x in bound_to(elements, group.instruction).frame.arrays.values()}
    found = [
        (read, array)
        for array, place in elements.reads
        if array.pointer in given and (read := _turned(array, place, variables)) is not None
    ]
    if not found:
        return group
    largest, _ = max(found, key=lambda x: x[1].shape.nbytes)
    along = largest.steps.index(1)
    reads = {x: array for x, array in found if x.steps[along] == 1}
    lanes = lanes_of(group, sizes, trial.lines)
    turned = TurnedGroup(group, space, along, reads, lanes, trial.lines)
    return turned if _shared_bytes(turned) <= _MOST_BYTES else group


def _turned(array: Array, place: Affine, variables: Sequence[Variable | None]) -> TurnedRead | None:
    """A read across memory, None for one that is not, or has to be made where results are."""
    factors = dict(place.terms)
    if not set(factors) <= {x for x in variables if x is not None}:
        return None
    steps = tuple([0 if x is None else factors.get(x, 0) for x in variables])
    sizes = [1 if x is None else x.extent for x in variables]
    if steps[-1] < _SHORTEST or 1 not in steps or min(steps) < 0:
        return None
    last = place.constant + sum([x * (y - 1) for x, y in zip(steps, sizes, strict=True)])
    shape = array.shape
    if place.constant < 0 or last >= shape.element_count or shape.element_type.is_complex:
        return None
    if sizes[steps.index(1)] < _SHORTEST or shape.element_count < _LEAST:
        return None
    return TurnedRead(array.pointer, steps, place.constant)


def _shared_bytes(turned: TurnedGroup) -> int:
    deep, wide = turned.sides
    nbytes = [memory.element_bytes(x.shape.element_type) for x in turned.reads.values()]
    return sum([(deep + _gap(x)) * wide * x for x in nbytes])


def _gap(nbytes: int) -> int:
    """Elements between the rows of a tile, so that threads that read below meet in few banks."""
    return max(4 // nbytes, 1)


def _visit(elements: Elements, group: PointGroup, index: Index) -> None:
    stored(elements, group.outputs, bound_to(elements, group.instruction), [index], None)


# -- the kernel ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _Turned:
    """The kernel of a group while it is written.

    `origin` is where the tile begins along each loop, and `tiles` are those of all reads.
    """

    turned: TurnedGroup
    fn: Function
    thread: str
    origin: tuple[Integer, ...]
    tiles: dict[TurnedRead, SharedArray] = field(default_factory=dict)

    @classmethod
    def of(cls, turned: TurnedGroup) -> _Turned:
        """Return the kernel of a group, whose tiles are brought."""
        group, sizes, along = turned.group, turned.space.sizes, turned.along
        fn = kernel_function(group.name, group.instruction, THREADS)
        deep, wide = turned.sides
        counts = list(sizes)
        counts[along], counts[-1] = -(-sizes[along] // deep), -(-sizes[-1] // wide)
        elements = thread_elements(fn, group.target, 0)
        at = [elements.indices.scalar(x) for x in decomposed(elements, block_number(fn), counts)]
        at[along], at[-1] = fn.mul(at[along], deep), fn.mul(at[-1], wide)
        written = cls(turned, fn, thread_in_block(fn), tuple(at))
        for number, (read, array) in enumerate(turned.reads.items()):
            nbytes = memory.element_bytes(array.shape.element_type)
            count = (deep + _gap(nbytes)) * wide
            written.tiles[read] = SharedArray(f"tile{number}", f"i{8 * nbytes}", count)
        return written

    def kernel(self) -> tuple[Function, GridLaunch, list[str]]:
        """Return the kernel, its launch, and what its module defines besides."""
        turned, sizes = self.turned, self.turned.space.sizes
        self._bring()
        barrier(self.fn)
        texts = self._compute()
        deep, wide = turned.sides
        outer = prod(sizes[:-1]) // sizes[turned.along]
        blocks = outer * -(-sizes[turned.along] // deep) * -(-sizes[-1] // wide)
        shared = [x.definition for x in self.tiles.values()]
        return self.fn, GridLaunch(turned.group.name, blocks, THREADS), [*texts, *shared]

    def _bring(self) -> None:
        """Load the tiles as they lie, all loads ahead of the stores."""
        turned, fn, run = self.turned, self.fn, self.turned.run
        deep, wide = turned.sides
        elements = thread_elements(fn, turned.group.target, run if run > 1 else 0)
        brought = []
        for number in range(-(-deep * wide // (run * THREADS))):
            unit = fn.add(self.thread, number * THREADS)
            first, row = fn.mul(fn.rem(unit, deep // run), run), fn.div(unit, deep // run)
            at = self._places(elements, first, row, turned.along, run)
            for read, array in turned.reads.items():
                place = sum([x * y for x, y in zip(at, read.steps, strict=True)], ZERO + read.start)
                nbytes = memory.element_bytes(array.shape.element_type)
                moved = replace(array, shape=array.shape.with_element_type(_MOVED[nbytes]))
                value = elements.memory.load(elements, moved, place, None)
                brought.append((read, unit, first, row, value.name))
        for read, unit, first, row, name in brought:
            if deep * wide % (run * THREADS):
                with fn.when(fn.compare("slt", unit, deep * wide // run)):
                    self._keep(read, first, row, name)
            else:
                self._keep(read, first, row, name)

    def _keep(self, read: TurnedRead, first: Integer, row: Integer, name: str) -> None:
        fn, run, tile = self.fn, self.turned.run, self.tiles[read]
        place = self._place(read, first, row)
        for lane in range(run):
            one = name
            if run > 1:
                one = fn.op(f"extractelement <{run} x {tile.type}> {name}, i64 {lane}")
            tile.store(fn, fn.add(place, lane), one)

    def _place(self, read: TurnedRead, first: Integer, row: Integer) -> Integer:
        """Where an element lies in a tile, by its places along and across what is turned."""
        nbytes = memory.element_bytes(self.turned.reads[read].shape.element_type)
        return self.fn.add(self.fn.mul(row, self.turned.sides[0] + _gap(nbytes)), first)

    def _places(
        self, elements: Elements, deep: Integer, wide: Integer, lying: int, run: int
    ) -> list[Affine]:
        """The positions along the loops of an element of the tile, or of lanes along one of them.

        Beyond the end of a loop it is the last one.
        """
        fn, sizes, along = self.fn, self.turned.space.sizes, self.turned.along
        found = []
        for loop, (size, begin) in enumerate(zip(sizes, self.origin, strict=True)):
            place = begin
            if loop in (along, len(sizes) - 1):
                local = deep if loop == along else wide
                place = fn.add(begin, local)
                if size % self.turned.sides[0 if loop == along else 1]:
                    place = fn.min(place, size - (run if loop == lying else 1))
            if loop == lying:
                found.append(lane_variable(elements, place, size))
            else:
                found.append(elements.indices.variable(place, size))
        return found

    def _compute(self) -> list[str]:
        """Write the results of the tile; return constants that they need."""
        turned, fn, lanes = self.turned, self.fn, self.turned.lanes
        deep, wide = turned.sides
        step = max(lanes, 1)
        units = deep * wide // step
        elements = thread_elements(fn, turned.group.target, lanes)
        count = -(-units // THREADS)
        together = count if turned.lines * count * step <= _LINES else 1
        with elements.scopes.loop(0, count, together) as loop:
            for number in range(together):
                unit = fn.add(self.thread, fn.mul(fn.add(loop.index, number), THREADS))
                row, first = fn.div(unit, wide // step), fn.mul(fn.rem(unit, wide // step), step)
                with elements.scopes.when(self._is_there(unit, units, row, first)):
                    self._one(elements, row, first)
        return list(elements.globals.values())

    def _is_there(self, unit: Integer, units: int, row: Integer, first: Integer) -> str:
        """Whether there are results of a unit: within the tile and the loops."""
        fn, sizes, along = self.fn, self.turned.space.sizes, self.turned.along
        found = "true"
        limits = [(unit, units, units % THREADS)]
        for local, loop, side in zip((row, first), (along, -1), self.turned.sides, strict=True):
            limits.append((fn.add(self.origin[loop], local), sizes[loop], sizes[loop] % side))
        for place, limit, is_needed in limits:
            if is_needed:
                found = fn.op(f"and i1 {found}, {fn.compare('slt', place, limit)}")
        return found

    def _one(self, elements: Elements, row: Integer, first: Integer) -> None:
        """Compute the results of a thread in one row of the tile."""
        turned, bound = self.turned, bound_to(elements, self.turned.group.instruction)
        lanes = turned.lanes
        at = self._places(elements, row, first, len(turned.space.sizes) - 1, max(lanes, 1))
        for parameter, array in bound.frame.arrays.items():
            if any(x.pointer == array.pointer for x in turned.reads):
                elements.given[parameter] = self._given(elements, array, at, row, first)
        index = domain_of(turned.group).index(turned.space.index(elements, at))
        stored(elements, turned.group.outputs, bound, [index], None)

    def _given(
        self, elements: Elements, array: Array, at: Sequence[Affine], row: Integer, first: Integer
    ) -> Given:
        """Have the elements of an operand come from its tile, where one has them."""
        variables = [x.terms[0][0] if x.terms else None for x in at]

        def given(index: Index, mask: Mask | None) -> Element:
            place = offset(array.shape, index)
            factors = dict(place.terms)
            steps = tuple([0 if x is None else factors.pop(x, 0) for x in variables])
            read = TurnedRead(array.pointer, steps, place.constant)
            if factors or read not in self.tiles:
                return elements.read(array, index, mask)
            name = self._taken(read, row, first)
            type_, target = array.shape.element_type, self.turned.group.target
            value = memory.loaded(self.fn, target, type_, name, self.turned.lanes)
            return Element((value,), elements.scopes.level)

        return given

    def _taken(self, read: TurnedRead, row: Integer, first: Integer) -> str:
        """Load an element of a tile, or one for each lane."""
        fn, tile, lanes = self.fn, self.tiles[read], self.turned.lanes
        if not lanes:
            return tile.load(fn, self._place(read, row, first))
        found, type_ = "poison", vector_type(tile.type, lanes)
        for lane in range(lanes):
            one = tile.load(fn, self._place(read, row, fn.add(first, lane)))
            found = fn.op(f"insertelement {type_} {found}, {tile.type} {one}, i64 {lane}")
        return found
