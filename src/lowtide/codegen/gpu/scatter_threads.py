"""Parts of scatters: starts of windows, old and new values, and where they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lowtide.codegen import indexing
from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import Bound, bind
from lowtide.codegen.elements.parts import chosen
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.gpu.kernel import buffer_names, kernel_function
from lowtide.codegen.gpu.threads import thread_number
from lowtide.codegen.gpu.vectors import thread_elements
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.library.scatter_form import ScatterForm, as_index
from lowtide.codegen.space import decomposed
from lowtide.codegen.value import Value
from lowtide.ir import Instruction
from lowtide.ir.thunk import GridLaunch
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

THREADS = 128
"""Threads of a block."""


class ScatterThread:
    """Writes parts of a scatter into a function; `arrays` number the kernel's results it updates.

    Steps are positions within a window, by dimension of the input; starts are i64s by dimension.
    """

    def __init__(
        self, elements: Elements, bound: Bound, form: ScatterForm, arrays: Sequence[int]
    ) -> None:
        self.elements = elements
        self.fn: Function = elements.function
        self.bound = bound
        self.form = form
        self.results = [
            Array(bound.results[x].pointer, shape)
            for x, shape in zip(arrays, form.results, strict=True)
        ]

    def batch(self, window: Integer) -> Index:
        """Return the position of a window along each batch dimension of the updates."""
        sizes = [self.form.update_sizes[d] for d in self.form.batch]
        return tuple(decomposed(self.elements, window, sizes))

    def starts(self, batch: Index) -> dict[int, Integer]:
        """Return where a window starts along the dimensions that index vectors address."""
        found: dict[int, Integer] = {}
        for d, number in self.form.starts:
            place = self.form.vector_place(batch, indexing.constant(number))
            element = self.elements.all_at(self.form.indices, place, self.bound.frame)  # type: ignore[arg-type]
            found[d] = as_index(self.fn, element.values[0])
        return found

    def is_inside(self, starts: dict[int, Integer]) -> str:
        """Return whether a window lies inside of the input."""
        test = "true"
        for d, start in starts.items():
            free = self.form.sizes[d] - self.form.window_size(d) + 1
            inside = self.fn.compare("ult", start, max(free, 0))
            test = inside if test == "true" else self.fn.op(f"and i1 {test}, {inside}")
        return test

    def origin(self, batch: Index, starts: dict[int, Integer]) -> dict[int, Affine]:
        """Return where a window that lies inside begins."""
        found = {d: batch[i] for d, i in self.form.batching}
        for d, start in starts.items():
            free = self.form.sizes[d] - self.form.window_size(d) + 1
            found[d] = self.elements.indices.variable(start, max(free, 1))
        return found

    def place(self, origin: dict[int, Affine], steps: dict[int, Affine]) -> Index:
        """Return the index in the input of an element of a window."""
        zero = indexing.ZERO
        dimensions = range(len(self.form.sizes))
        return tuple([origin.get(d, zero) + steps.get(d, zero) for d in dimensions])

    def steps_to(
        self, place: Index, batch: Index, starts: dict[int, Integer]
    ) -> tuple[dict[int, Affine], str]:
        """Return the steps in a window of an element of the input, and whether it lies there.

        Where it does not, they are any that lie within the window.
        """
        fn, form, indices = self.fn, self.form, self.elements.indices
        test, steps = self.is_inside(starts), dict[int, Affine]()
        known: dict[int, Integer] = dict(starts)
        known |= {d: indices.scalar(batch[i]) for d, i in form.batching}
        along = dict(form.window)
        for d, position in enumerate(place):
            step = fn.sub(indices.scalar(position), known.get(d, 0))
            size = form.window_size(d)
            here = fn.compare("ult", step, size)
            test = fn.op(f"and i1 {test}, {here}")
            if d in along:
                steps[d] = indices.variable(fn.select(here, "i64", step, 0), size)
        return steps, test

    # -- elements ------------------------------------------------------------------------------

    def updates(self, batch: Index, steps: dict[int, Affine]) -> list[Value]:
        """Return what a window has for each array, at some steps."""
        known = dict(zip(self.form.batch, batch, strict=True))
        known |= {u: steps[d] for d, u in self.form.window}
        index = tuple([known[d] for d in range(len(self.form.update_sizes))])
        return [self.elements.at(x, index, self.bound.frame) for x in self.form.updates]

    def old(self, place: Index) -> list[Value]:
        """Return what the results have at a place."""
        elements, found = self.elements, []
        for array in self.results:
            spot = elements.address(array, offset(array.shape, place))
            type_ = array.shape.element_type
            found.append(memory.load(self.fn, elements.target, type_, spot, 0))
        return found

    def combined(self, old: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        """Return what the scatter makes of old and new values."""
        level = self.elements.scopes.level
        given = [Element((x,), level) for x in (*old, *new)]
        combine = self.form.scatter.called_computations[0]
        return list(self.elements.apply(combine, given).values)

    def chosen(self, condition: str, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """Return some values where a condition holds, else others."""
        if condition == "true":
            return list(a)
        level = self.elements.scopes.level
        one, other = Element(tuple(a), level), Element(tuple(b), level)
        return list(chosen(self.elements, Mask(condition, 0, level), one, other).values)

    def store(self, place: Index, values: Sequence[Value]) -> None:
        """Store values at a place of the results."""
        elements = self.elements
        for array, value in zip(self.results, values, strict=True):
            spot = elements.address(array, offset(array.shape, place))
            memory.store(self.fn, elements.target, value, spot, None)


class ScatterThreads(ScatterThread):
    """Writes a kernel of `count` threads."""

    def __init__(
        self,
        kernel: Instruction,
        form: ScatterForm,
        arrays: Sequence[int],
        target: Target,
        name: str,
        count: int,
    ) -> None:
        fn = kernel_function(name, kernel, THREADS)
        elements = thread_elements(fn, target, 0)
        super().__init__(elements, bind(fn, kernel, buffer_names(kernel)), form, arrays)
        self.count = count

    @contextmanager
    def when_there(self) -> Iterator[Integer]:
        """Write what threads below the count do, given the number of a thread."""
        number = thread_number(self.fn, THREADS, self.count)
        with self.elements.scopes.when(self.fn.compare("slt", number, self.count)):
            yield number

    def part(self) -> tuple[list[Function], list[GridLaunch], list[str]]:
        """Return the function, its launch, and what the module defines besides."""
        launch = GridLaunch(self.fn.name, -(-self.count // THREADS), THREADS)
        return [self.fn], [launch], list(self.elements.globals.values())
