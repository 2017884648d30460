"""Code that calls a routine of LAPACK for each matrix of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias

from lowtide.codegen.arrays import Array, offset
from lowtide.codegen.cpu.cost import seconds
from lowtide.codegen.cpu.library.copies import Copy, copies_code
from lowtide.codegen.cpu.library.lapack_routines import Area, One, RoutineCall
from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elementwise.memory import element_bytes
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS, KernelCode, rounded, thread_scratch
from lowtide.codegen.library.matrices import BatchFunction
from lowtide.codegen.space import decomposed
from lowtide.ir import ElementType, Instruction
from lowtide.ir.thunk import Phase
from lowtide.llvm import lapack
from lowtide.llvm.callee import MOVE, SET, external
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target
from lowtide.records import dataclass

_ABREAST: Final = 8
"""Columns of a matrix that are copied together: rows that lie in one piece are read so."""

_NOT_FINITE: Final = -4
"""The info of a matrix that was not handed in."""

_Place: TypeAlias = Callable[[Integer, Integer], str]
"""Writes the address of an element by its row and column."""

Argument: TypeAlias = "str | int | Area | One | None"


@dataclass(frozen=True, slots=True)
class LapackForm:
    """A call for each matrix of a batch, and where its areas lie in scratch."""

    name: str
    call: RoutineCall
    batch: tuple[int, ...]
    arguments: Sequence[Argument]

    @property
    def places(self) -> list[int]:
        """The first byte of each area, of all arguments; at last, their end."""
        found = [0]
        for x in self.arguments:
            is_copy = isinstance(x, Area) and not x.is_in_place
            nbytes = _count(x) * x.type.nbytes if isinstance(x, Area) and is_copy else 0
            found.append(found[-1] + rounded(nbytes))
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of scratch."""
        return max(self.places[-1], 64)


def _count(area: Area) -> int:
    return max(prod(area.sizes), 1)


def lapack_code(instruction: Instruction, form: LapackForm, target: Target) -> KernelCode:
    """Return the code of a call."""
    operands, results = [x.shape for x in instruction.operands], leaves(instruction.shape)
    copies = [
        Copy(operand, operands[operand], len(operands) + result, results[result])
        for operand, result in form.call.kept
    ]
    kept = copies_code(copies)
    writer = _Writer(instruction, form, target)
    function = writer.written()
    size = max([prod(x.sizes) for x in form.arguments if isinstance(x, Area) and x.operand == 0])
    each = seconds(0, 10 * size**1.5)
    phase = Phase(function.name, prod(form.batch), each)
    return KernelCode((*kept.functions, function), (*kept.phases, phase))


class _Writer:
    """Writes the function of a call."""

    def __init__(self, instruction: Instruction, form: LapackForm, target: Target) -> None:
        self._work = BatchFunction(
            instruction, scalar_elements(Function("lapack", ARGUMENTS), target)
        )
        self._fn = self._work.function
        self._form = form
        scratch = thread_scratch(self._work.function, form.nbytes)
        self._pointers = [self._fn.gep(scratch, place) for place in form.places]

    def written(self) -> Function:
        """Return the function."""
        with self._work.elements.scopes.loop("%begin", "%end") as loop:
            batch = decomposed(self._work.elements, loop.index, self._form.batch)
            for number, area in self._areas():
                if area.is_in_place:
                    self._pointers[number] = self._in_place(batch, area)
                elif area.operand is not None:
                    self._copy(batch, area, number, self._work.operands[area.operand], out=False)
                elif area.result is not None:
                    nbytes = _count(area) * area.type.nbytes
                    self._fn.call(SET, [self._pointers[number], 0, nbytes, "false"])
            self._call()
            for number, area in self._areas():
                if area.result is None or area.is_in_place:
                    continue
                array = self._work.results[area.result]
                if area.pairs is None:
                    self._copy(batch, area, number, array, out=True)
                else:
                    self._unpack(batch, area, number, array)
        return self._fn

    def _in_place(self, batch: Sequence[Affine], area: Area) -> str:
        """Return the address of a matrix on which the routine works where it lies."""
        work = self._work
        operand = None if area.operand is None else work.operands[area.operand]
        if area.result is None:
            assert operand is not None
            return self._address(batch, area, operand, 0, 0)
        result = work.results[area.result]
        found = self._address(batch, area, result, 0, 0)
        if operand is None:
            return found
        if operand.shape.physical_order == result.shape.physical_order:
            source = self._address(batch, area, operand, 0, 0)
            self._fn.call(MOVE, [found, source, _count(area) * area.type.nbytes, "false"])
        else:
            self._copied(
                area,
                lambda row, column: self._address(batch, area, operand, row, column),
                lambda row, column: self._address(batch, area, result, row, column),
            )
        return found

    def _areas(self) -> list[tuple[int, Area]]:
        return [(n, x) for n, x in enumerate(self._form.arguments) if isinstance(x, Area)]

    def _call(self) -> None:
        """Write the call; in its place, where the matrix has to be finite and is not, an info."""
        fn = self._fn
        given = [self._argument(n, x) for n, x in enumerate(self._form.arguments)]
        routine = external(lapack.symbol(self._form.name), "void", *["ptr"] * len(given))
        if not self._form.call.is_finite:
            fn.call(routine, given)
            return
        info = given[-1]
        fn.store("i32", _NOT_FINITE, info, 4)
        with fn.when(self._is_finite()):
            fn.store("i32", 0, info, 4)
            fn.call(routine, given)

    def _argument(self, number: int, given: Argument) -> str:
        """Return the address of an argument."""
        fn = self._fn
        if given is None:
            return "null"
        if isinstance(given, Area):
            return fn.gep(self._pointers[number], given.skip * given.type.nbytes)
        if isinstance(given, One):
            return self._one(given.type)
        type_, value, align = ("i32", given, 4) if isinstance(given, int) else ("i8", ord(given), 1)
        place = fn.stack(type_, 1, align)
        fn.store(type_, value, place, align)
        return place

    def _one(self, type_: ElementType) -> str:
        """Return the address of the number 1, of a complex one with an imaginary part of 0."""
        fn, width = self._fn, element_bytes(type_)
        part = "float" if width == 4 else "double"
        place = fn.stack(part, type_.nbytes // width, width)
        for number, value in zip(range(type_.nbytes // width), ("1.0", "0.0"), strict=False):
            fn.store(part, value, fn.gep(place, number, part), width)
        return place

    def _is_finite(self) -> str:
        """Return whether all parts of elements of the first operand are finite."""
        fn = self._fn
        number, area = next((n, x) for n, x in self._areas() if x.operand == 0)
        width = element_bytes(area.type)
        count = prod(area.sizes) * area.type.nbytes // width
        ones = {4: 0xFF << 23, 8: 0x7FF << 52}[width]
        with fn.loop(0, count, 1, [("i1", "true")]) as loop:
            place = fn.gep(self._pointers[number], loop.index, f"i{8 * width}")
            bits = fn.load(f"i{8 * width}", place, width)
            exponent = fn.op(f"and i{8 * width} {bits}, {ones}")
            inside = fn.op(f"icmp ne i{8 * width} {exponent}, {ones}")
            loop.next = [fn.op(f"and i1 {loop.values[0]}, {inside}")]
        return loop.results[0]

    def _copy(
        self, batch: Sequence[Affine], area: Area, number: int, array: Array, *, out: bool
    ) -> None:
        """Copy a matrix, a vector or a number between an array and scratch."""

        def there(row: Integer, column: Integer) -> str:
            return self._address(batch, area, array, row, column)

        def here(row: Integer, column: Integer) -> str:
            return self._here(number, area, row, column)

        self._copied(area, *((here, there) if out else (there, here)))

    def _copied(self, area: Area, source: _Place, to: _Place) -> None:
        """Copy the elements of an area from places to others."""
        bits, align = f"i{8 * area.type.nbytes}", element_bytes(area.type)
        rows, columns = _two(area.sizes)
        fn, loop = self._fn, self._work.elements.scopes.loop

        def copied(row: Integer, column: Integer) -> None:
            fn.store(bits, fn.load(bits, source(row, column), align), to(row, column), align)

        whole = columns - columns % _ABREAST
        with loop(0, whole, _ABREAST) as block, loop(0, rows) as row:
            for more in range(_ABREAST):
                copied(row.index, fn.add(block.index, more))
        with loop(whole, columns) as column, loop(0, rows) as row:
            copied(row.index, column.index)

    def _address(
        self, batch: Sequence[Affine], area: Area, array: Array, row: Integer, column: Integer
    ) -> str:
        at = (row, column)[: len(area.sizes)]
        index = self._work.place(batch, array, at)
        return self._work.elements.address(array, offset(array.shape, index))

    def _here(self, number: int, area: Area, row: Integer, column: Integer) -> str:
        place = self._fn.add(row, self._fn.mul(column, _two(area.sizes)[0]))
        return self._fn.gep(self._pointers[number], place, f"i{8 * area.type.nbytes}")

    def _unpack(self, batch: Sequence[Affine], area: Area, number: int, array: Array) -> None:
        """Store complex vectors, of which LAPACK leaves real and imaginary parts side by side.

        The first of two conjugate eigenvalues is the one with the positive imaginary part.
        """
        fn, width = self._fn, area.type.nbytes
        real = "float" if width == 4 else "double"
        assert area.pairs is not None
        rows, columns = _two(area.sizes)
        with self._work.elements.scopes.loop(0, columns) as column:
            part = fn.load(real, fn.gep(self._pointers[area.pairs], column.index, real), width)
            first = fn.op(f"fcmp ogt {real} {part}, 0.0")
            second = fn.op(f"fcmp olt {real} {part}, 0.0")
            of_real = fn.select(second, "i64", fn.sub(column.index, 1), column.index)
            of_imaginary = fn.select(first, "i64", fn.add(column.index, 1), column.index)
            with self._work.elements.scopes.loop(0, rows) as row:
                places = [self._here(number, area, row.index, x) for x in (of_real, of_imaginary)]
                a, b = [fn.load(real, place, width) for place in places]
                negative = fn.op(f"fneg {real} {b}")
                b = fn.select(first, real, b, fn.select(second, real, negative, "0.0"))
                there = self._address(batch, area, array, row.index, column.index)
                fn.store(real, a, there, width)
                fn.store(real, b, fn.gep(there, width), width)


def _two(sizes: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns; a vector is a column, a number one of one row."""
    rows, columns = (*sizes, 1, 1)[:2]
    return rows, columns
