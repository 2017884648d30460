"""Scatter: windows of updates combined into an array in place, in the order of their indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Final

from lowtide.codegen import indexing
from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.cpu.cost import seconds, vector_cycles, widest
from lowtide.codegen.cpu.library.scatter_blocks import block_lanes, lane_of, lies_in_memory
from lowtide.codegen.cpu.vector_elements import vector_elements
from lowtide.codegen.elements.operands import Bound, bind, members
from lowtide.codegen.elements.outputs import KernelOutput, stored
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, KernelPlan
from lowtide.codegen.library.scatter_form import ScatterForm, as_index, combine_reads
from lowtide.codegen.value import Value, register_bytes
from lowtide.ir import Computation, Instruction
from lowtide.ir.thunk import Phase
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

LINE_BYTES: Final = 256
"""The least part of a window's line that a piece of work takes: less would split cache lines."""

MOST_PIECES: Final = 16
"""Pieces of one scatter; each looks at all indices."""

SMALL: Final = 4096
"""Elements of updates that are not worth a second thread."""

WIDE: Final = 32
"""Elements of a window that take as long as a wrong guess whether it starts in a piece."""


_ZERO: Final = indexing.ZERO


@dataclass(frozen=True, slots=True)
class Split:
    """How the work is divided: by parts of `size` elements of a dimension of the input.

    With `along_line` a piece takes its part of each window, else the windows that start in it. So
    no element is written by two pieces, and each is written in the order of the indices.
    """

    dimension: int
    size: int
    units: int
    along_line: bool


def split_of(form: ScatterForm) -> Split | None:
    """Return how a scatter is divided, None where it is one piece; by shapes alone."""
    if prod(form.update_sizes) <= SMALL:
        return None
    if form.line is not None:
        extent = form.window_size(form.line)
        each = max(64, LINE_BYTES // register_bytes(form.inputs[0].shape.element_type))
        size = -(-max(each, -(-extent // MOST_PIECES)) // 64) * 64
        if extent >= 2 * size:
            return Split(form.line, size, -(-extent // size), along_line=True)
    if form.row is None or prod([form.update_sizes[u] for _, u in form.window]) < WIDE:
        return None
    extent = form.sizes[form.row]
    size = max(1, -(-extent // MOST_PIECES))
    return Split(form.row, size, -(-extent // size), along_line=False)


def plan_scatter(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of a scatter whose operands are arrays in memory."""
    arrays = range(len(instruction.operands) // 2)
    return KernelPlan(lambda: scatter_code(instruction, instruction, arrays, target, "scatter"))


def stands_beside(output: KernelOutput, scatter: Instruction) -> bool:
    """Whether a scatter of a kernel can store another output: either is of one element."""
    form = ScatterForm(scatter)
    return prod(output.dimensions) == prod(form.update_sizes) == 1 and prod(form.sizes) > 0


def scatter_code(
    kernel: Instruction,
    scatter: Instruction,
    results: Sequence[int],
    target: Target,
    name: str,
    beside: Sequence[KernelOutput] = (),
) -> KernelCode:
    """Return the code of a scatter in a kernel; `results` number the kernel's arrays it updates.

    Outputs `beside` it are computed first and stored last.
    """
    form = ScatterForm(scatter)
    if not prod(form.update_sizes) or not prod(form.sizes):
        return KernelCode((), ())
    return ScatterKernel(kernel, form, results, target, name).write(beside)


class ScatterKernel:
    """Writes the function of a scatter."""

    def __init__(
        self,
        kernel: Instruction,
        form: ScatterForm,
        results: Sequence[int],
        target: Target,
        name: str,
    ) -> None:
        self.kernel = kernel
        self.form = form
        self.target = target
        self.split = split_of(form)
        self.function = Function(name, ARGUMENTS)
        self.lanes = self._lanes()
        self.block = 0 if self.lanes else block_lanes(kernel, form, target)
        self.elements = vector_elements(self.function, target, self.lanes or self.block)
        self.bound: Bound = bind(self.function, kernel)
        self.arrays = [
            Array(self.bound.results[x].pointer, shape)
            for x, shape in zip(results, form.results, strict=True)
        ]

    def _lanes(self) -> int:
        form = self.form
        if form.line is None:
            return 0
        known = [*members(self.kernel), *form.scatter.called_computations[0].instructions.values()]
        most = max(self.target.vector_bytes // widest(known), 2)
        lanes = 1
        while lanes < min(most, form.window_size(form.line)):
            lanes *= 2
        return lanes

    def write(self, beside: Sequence[KernelOutput]) -> KernelCode:
        """Write the function, with single elements of other outputs; say how it runs."""
        for x in beside:
            self.elements.all_at(x.source, _origin(x), self.bound.frame)
        self._windows([], list(self.form.batch))
        if beside:
            stored(self.elements, beside, self.bound, [_origin(beside[0])], None)
        units = 1 if self.split is None else self.split.units
        text = "\n".join(self.elements.globals.values())
        phase = Phase(self.function.name, units, self._seconds() / units)
        return KernelCode((self.function,), (phase,), text)

    def _seconds(self) -> float:
        form = self.form
        count = prod(form.update_sizes)
        nbytes = sum([3 * register_bytes(x.shape.element_type) for x in form.inputs])
        cycles = (2 + vector_cycles(members(self.kernel))) / max(1, self.lanes, self.block)
        windows = prod([form.update_sizes[d] for d in form.batch])
        return count * seconds(nbytes, cycles) + windows * seconds(0, 6)

    # -- windows -------------------------------------------------------------------------------

    def _windows(self, at: list[Affine], left: list[int]) -> None:
        """Loops over all windows in row-major order."""
        if not left:
            self._window(tuple(at))
            return
        size = self.form.update_sizes[left[0]]
        begin = self._blocks(at, size) if self.block and len(left) == 1 else 0
        if begin == size:
            return
        with self.elements.scopes.loop(begin, size) as loop:
            here = self.elements.indices.variable(loop.index, size)
            self._windows([*at, here], left[1:])

    def _window(self, batch: tuple[Affine, ...]) -> None:
        """One window, if it lies inside and is of this piece."""
        starts = [self._start(batch, number) for _, number in self.form.starts]
        with self._where(batch, starts) as origin:
            self._lines(batch, origin)

    def _start(self, batch: tuple[Affine, ...], number: int) -> Value:
        """A number of the index vector of a window."""
        place = self.form.vector_place(batch, indexing.constant(number))
        found = self.elements.all_at(self.form.indices, place, self.bound.frame)  # type: ignore[arg-type]
        return found.values[0]

    @contextmanager
    def _where(
        self, batch: tuple[Affine, ...], starts: Sequence[Value]
    ) -> Iterator[dict[int, Affine]]:
        """Write what runs where a window lies inside and is of this piece, given its origin."""
        elements, fn, form = self.elements, self.function, self.form
        origin = dict.fromkeys(range(len(form.sizes)), indexing.ZERO)
        for d, position in form.batching:
            origin[d] = batch[position]
        test = ""
        for (d, _), value in zip(form.starts, starts, strict=True):
            start = as_index(fn, value)
            free = form.sizes[d] - form.window_size(d) + 1
            inside = self._inside(d, start, free)
            test = fn.op(f"and i1 {test}, {inside}") if test else inside
            origin[d] = elements.indices.variable(start, max(free, 1))
        if not test:
            yield origin
            return
        with elements.scopes.when(test):
            yield origin

    def _blocks(self, at: list[Affine], size: int) -> int:
        """Windows of one element, whose places and updates are vectors; return where these end."""
        form, fn, elements = self.form, self.function, self.elements
        end = size - size % self.block
        with elements.scopes.loop(0, end, self.block) as loop:
            batch = (*at, elements.indices.variable(loop.index, size, is_lane=True))
            source = self._update_index(batch, dict.fromkeys([d for d, _ in form.window], _ZERO))
            lies = lies_in_memory(form.indices, self.kernel)
            starts = [] if lies else [self._start(batch, number) for _, number in form.starts]
            updates = [elements.at(x, source, self.bound.frame) for x in form.updates]
            for lane in range(self.block):
                here = elements.indices.variable(fn.add(loop.index, lane), size)
                begin = [lane_of(fn, x, lane) for x in starts]
                if lies:
                    begin = [self._start((*at, here), number) for _, number in form.starts]
                with self._where((*at, here), begin) as origin:
                    place = tuple([origin[d] for d in range(len(form.sizes))])
                    self._combine(place, [lane_of(fn, x, lane) for x in updates], None)
        return end

    def _inside(self, dimension: int, start: Integer, free: int) -> str:
        """Whether a window starts where it lies inside, within the part of the pieces."""
        fn, split = self.function, self.split
        if split is None or split.along_line or split.dimension != dimension:
            return fn.compare("ult", start, max(free, 0))
        first = fn.mul("%begin", split.size)
        last = fn.min(fn.mul("%end", split.size), free)
        return fn.compare("ult", fn.op(f"sub i64 {start}, {first}"), fn.sub(last, first))

    def _lines(self, batch: tuple[Affine, ...], origin: dict[int, Affine]) -> None:
        """Loops over the dimensions of the window, the line innermost."""
        form = self.form
        left = [(d, u) for d, u in form.window if d != form.line]
        if form.line is not None:
            left.append((form.line, dict(form.window)[form.line]))
        self._along(batch, origin, {}, left)

    def _along(
        self,
        batch: tuple[Affine, ...],
        origin: dict[int, Affine],
        steps: dict[int, Affine],
        left: list[tuple[int, int]],
    ) -> None:
        if not left:
            self._point(batch, origin, steps, None)
            return
        (d, u), *rest = left
        elements, size = self.elements, self.form.update_sizes[u]
        if d == self.form.line:
            self._line(batch, origin, steps, size)
            return
        with elements.scopes.loop(0, size) as loop:
            here = elements.indices.variable(loop.index, size)
            self._along(batch, origin, {**steps, d: here}, rest)

    def _line(
        self,
        batch: tuple[Affine, ...],
        origin: dict[int, Affine],
        steps: dict[int, Affine],
        size: int,
    ) -> None:
        """The consecutive elements of a window, the last ones under a mask."""
        elements, fn, lanes, split = self.elements, self.function, self.lanes, self.split
        assert self.form.line is not None
        start: Integer = 0
        stop: Integer = size
        if split is not None and split.along_line:
            start = fn.mul("%begin", split.size)
            stop = fn.min(fn.mul("%end", split.size), size)
        rest = size % lanes
        full = fn.min(stop, size - rest) if rest else stop
        with elements.scopes.loop(start, full, lanes) as loop:
            here = elements.indices.variable(loop.index, size, is_lane=True)
            self._point(batch, origin, {**steps, self.form.line: here}, None)
        if not rest:
            return
        bits = ", ".join([f"i1 {str(i < rest).lower()}" for i in range(lanes)])
        with elements.scopes.when(fn.compare("eq", stop, size)):
            here = elements.indices.variable(size - rest, size, is_lane=True)
            mask = Mask(f"<{bits}>", lanes, 0)
            self._point(batch, origin, {**steps, self.form.line: here}, mask)

    # -- elements ------------------------------------------------------------------------------

    def _point(
        self,
        batch: tuple[Affine, ...],
        origin: dict[int, Affine],
        steps: dict[int, Affine],
        mask: Mask | None,
    ) -> None:
        """Combine an element, or a vector of them, of each update with what is there."""
        form = self.form
        place = tuple([origin[d] + steps.get(d, _ZERO) for d in range(len(form.sizes))])
        source = self._update_index(batch, steps)
        new = [self.elements.at(x, source, self.bound.frame, mask) for x in form.updates]
        self._combine(place, new, mask)

    def _combine(self, place: tuple[Affine, ...], new: Sequence[Value], mask: Mask | None) -> None:
        """Combine a new value of each array with what is at its place."""
        elements = self.elements
        combine = self.form.scatter.called_computations[0]
        used = combine_reads(combine)
        spots = [self._spot(array, place) for array in self.arrays]
        given = []
        for number, (array, spot) in enumerate(zip(self.arrays, spots, strict=True)):
            known = self._old(array, spot, mask) if number in used else new[number]
            given.append(known)
        found = self._combined(combine, given, new, mask)
        for spot, value in zip(spots, found, strict=True):
            name = None if mask is None else elements.vectors.mask_lanes(mask, self.lanes)
            memory.store(self.function, self.target, value, spot, name)

    def _update_index(
        self, batch: tuple[Affine, ...], steps: dict[int, Affine]
    ) -> tuple[Affine, ...]:
        known = dict(zip(self.form.batch, batch, strict=True))
        known |= {u: steps[d] for d, u in self.form.window if d in steps}
        return tuple([known[d] for d in range(len(self.form.update_sizes))])

    def _spot(self, array: Array, place: tuple[Affine, ...]) -> str:
        return self.elements.address(array, offset(array.shape, place))

    def _old(self, array: Array, spot: str, mask: Mask | None) -> Value:
        name = None if mask is None else self.elements.vectors.mask_lanes(mask, self.lanes)
        type_ = array.shape.element_type
        return memory.load(self.function, self.target, type_, spot, self.lanes, name)

    def _combined(
        self, combine: Computation, old: Sequence[Value], new: Sequence[Value], mask: Mask | None
    ) -> list[Value]:
        elements = self.elements
        level = elements.scopes.level
        given = [Element((x,), level) for x in (*old, *new)]
        found = elements.apply(combine, given, mask).values
        return [x if x.lanes == self.lanes else elements.vectors.splat(x, level) for x in found]


def _origin(output: KernelOutput) -> Index:
    """The index of the only element of an output."""
    return (indexing.ZERO,) * len(output.dimensions)
